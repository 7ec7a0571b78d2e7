"""Ways to break a pretended node, and the one way to mend it."""

import signal

from leadsman_cli.errors import CommandError
from leadsman_cli.invocation import typed
from leadsman_cli.messages import Answer, How
from leadsman_cli.node import DRIVER, DemoNode, start_backend, start_csi
from leadsman_cli.supervisor import Supervisor, send


async def break_node(node: DemoNode, how: How, supervisor: Supervisor) -> Answer:
    """Put one fault into force.

    Raises:
        CommandError: this machine cannot do it, or the fault is in force already.
    """
    if how in node.broken_by:
        raise CommandError(f"{node.name} is already broken by {how}; mend it with: {typed(f'heal {node.name}')}")
    answer = await _BREAKERS[how](node, supervisor)
    node.broken_by.append(how)
    return answer


async def _freeze(node: DemoNode, _: Supervisor) -> Answer:
    if node.csi.pid is None:
        raise CommandError(f"the CSI driver of {node.name} is not running; mend it with: {typed(f'heal {node.name}')}")
    send(node.csi, signal.SIGSTOP)
    did = f"{node.name}: froze the CSI driver {DRIVER} (SIGSTOP to process {node.csi.pid})"
    return Answer(did=[did], expect=f"{DRIVER} turns UNHEALTHY within about 5 s; watch it with: {typed('status')}")


async def _kill(node: DemoNode, supervisor: Supervisor) -> Answer:
    pid = node.csi.pid
    await supervisor.kill(node.csi)
    did = f"{node.name}: killed the CSI driver {DRIVER} (SIGKILL to process {pid}); its socket refuses now"
    return Answer(did=[did], expect=f"{DRIVER} turns UNHEALTHY within about 5 s; watch it with: {typed('status')}")


async def _refuse(node: DemoNode, supervisor: Supervisor) -> Answer:
    await supervisor.kill(node.backend)
    did = f"{node.name}: stopped its way to the storage backend (127.0.0.1:{node.backend_port} refuses connections)"
    return Answer(did=[did], expect=f"the backend turns UNHEALTHY within about 5 s; watch it with: {typed('status')}")


async def _hang_mount(node: DemoNode, _: Supervisor) -> Answer:
    if node.mount is None:
        raise CommandError(
            f"cannot hang a mount on this machine: {node.why_no_mount}; try --how freeze, kill or refuse"
        )
    send(node.mount, signal.SIGUSR1)  # from now on it reads requests and never answers
    did = f"{node.name}: hung its mount (its FUSE server, process {node.mount.pid}, answers no more)"
    return Answer(did=[did], expect=f"the backend turns UNHEALTHY within about 10 s; watch it with: {typed('status')}")


_BREAKERS = {"freeze": _freeze, "kill": _kill, "refuse": _refuse, "hang-mount": _hang_mount}


async def heal_node(node: DemoNode, supervisor: Supervisor) -> Answer:
    """Undo every fault: resume what is stopped, restart what was killed."""
    if not node.broken_by:
        return Answer(did=[f"{node.name}: nothing to do, it is not broken"])
    did = []
    if node.csi.pid is None:
        await start_csi(node, supervisor)
        did.append(f"{node.name}: started the CSI driver {DRIVER} again")
    elif "freeze" in node.broken_by:
        send(node.csi, signal.SIGCONT)
        did.append(f"{node.name}: resumed the CSI driver {DRIVER} (SIGCONT to process {node.csi.pid})")
    if node.backend.pid is None:
        await start_backend(node, supervisor)
        did.append(f"{node.name}: opened its way to the storage backend again (127.0.0.1:{node.backend_port})")
    if node.mount is not None and "hang-mount" in node.broken_by:
        send(node.mount, signal.SIGUSR2)
        did.append(f"{node.name}: its mount answers again")
    node.broken_by.clear()
    return Answer(
        did=did, expect=f"everything on {node.name} is HEALTHY again within about 3 s; watch it with: {typed('status')}"
    )
