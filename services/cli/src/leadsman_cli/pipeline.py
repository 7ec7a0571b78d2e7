"""The whole local pipeline: NATS, nodes, filter, scorer and gateway, brought up side by side and then watched."""

import asyncio
import operator
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.replica import Replica
from leadsman.bus.streams import ensure_streams
from leadsman.bus.subjects import DECISION
from leadsman.domain.report import node_of
from leadsman.testing.pages import page
from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import eventually
from leadsman_cli import services
from leadsman_cli.board import Board
from leadsman_cli.control import serve_control
from leadsman_cli.errors import CommandError
from leadsman_cli.faults import break_node, heal_node
from leadsman_cli.messages import Answer, Request, Status
from leadsman_cli.node import EXPECTED, DemoNode, plan_node, start_node, why_no_mounts
from leadsman_cli.runs import NodeState, RunState, write_state
from leadsman_cli.supervisor import Child, End, Supervisor
from leadsman_cli.workspace import Workspace

_START_TIME_S = 90.0  # fifty nodes on two cores need most of it
_HEALTHY_TIME_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the user asked for."""

    nodes: int
    port: int
    policy: Path | None = None


class Pipeline:
    """Starts everything in order, then answers `break`, `heal` and `status` until cancelled.

    `say` gets one line for each step of the start. `ready` is set when every node is healthy and the gateway serves.
    """

    def __init__(
        self, plan: Plan, workspace: Workspace, supervisor: Supervisor, board: Board, say: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._workspace = workspace
        self._supervisor = supervisor
        self._board = board
        self._say = say
        self._nats_url = ""
        self._nodes: dict[str, DemoNode] = {}
        self._replica: Replica | None = None
        self._began = time.monotonic()
        self._one_order = asyncio.Lock()
        self.ready = asyncio.Event()

    @property
    def gateway_url(self) -> str:
        """What kube-scheduler's `urlPrefix` would be."""
        return f"http://127.0.0.1:{self._plan.port}"

    @property
    def healthy(self) -> str:
        """How many of all nodes are wholly healthy: `3 of 3`."""
        well = [name for name in self._nodes if not self._board.unhealthy(name, EXPECTED)]
        return f"{len(well)} of {len(self._nodes)}"

    async def run(self) -> None:
        """Start, then serve for ever.

        Raises:
            CommandError: a state file or stream cannot be made.
            NotInTimeError: something has not come up in time.
        """
        write_state(self._state())
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_control(self._workspace.control, self._on_request), name="control")
            await self._start_nats()
            bus = Bus(BusSettings.for_service((self._nats_url,), "leadsman-cli"), CollectorRegistry())
            self._replica = Replica(
                bus, registry=CollectorRegistry(), listener=self._board, on_forget=self._board.on_forget
            )
            await bus.subscribe(f"{DECISION}.*", self._board.on_decision_message)
            group.create_task(bus.run(), name="bus")
            group.create_task(self._replica.run(), name="replica")
            await self._start_rest()
            write_state(self._state())
            self.ready.set()

    async def _start_nats(self) -> None:
        ports = self._workspace.folder("ports")
        nats = self._supervisor.plan(
            "nats-server", services.nats(self._workspace.folder("nats"), ports), End.KILLED_LAST
        )
        await self._supervisor.start(nats)
        self._nats_url = await eventually(
            "nats-server listens", lambda: services.nats_url(ports, nats), within_s=_START_TIME_S
        )
        await ensure_streams((self._nats_url,))
        self._step(f"NATS listens on {self._nats_url}")

    async def _start_rest(self) -> None:
        names = [f"node-{number}" for number in range(1, self._plan.nodes + 1)]
        filter_port, scorer_port, *backend_ports = free_ports(2 + len(names), besides=(self._plan.port,))
        self._plan_nodes(names, backend_ports)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_services(filter_port, scorer_port))
            for node in self._nodes.values():
                group.create_task(self._start_node(node))
        self._say_about_mounts()
        await self._until_healthy(names)

    def _plan_nodes(self, names: list[str], ports: list[int]) -> None:
        why = why_no_mounts()
        for name, port in zip(names, ports, strict=True):
            self._nodes[name] = plan_node(
                name, port, self._workspace, self._supervisor, self._nats_url, why_no_mount=why
            )

    async def _start_node(self, node: DemoNode) -> None:
        await start_node(node, self._supervisor)
        self._step(f"{node.name}: CSI driver and backend serve, collector started")

    async def _start_services(self, filter_port: int, scorer_port: int) -> None:
        gateway = services.gateway(self._plan.port, filter_port, scorer_port, self._nats_url)
        for name, command in (
            ("filter", services.hop("filter", filter_port, self._nats_url, self._plan.policy)),
            ("scorer", services.hop("scorer", scorer_port, self._nats_url, self._plan.policy)),
            ("gateway", gateway),
        ):
            await self._supervisor.start(self._supervisor.plan(name, command, End.DRAINED))
        await eventually("gateway is ready", self._gateway_ready, within_s=_START_TIME_S)
        self._step(f"filter and scorer serve, gateway on {self.gateway_url}")

    def _gateway_ready(self) -> bool:
        return page(self._plan.port, "/readyz", within_s=0.5)[0] == HTTPStatus.OK

    async def _until_healthy(self, names: list[str]) -> None:
        def sick() -> list[str]:
            return [f"{name}: {words}" for name in names for words in self._board.unhealthy(name, EXPECTED)]

        await eventually("every node is healthy", sick, operator.not_, within_s=_HEALTHY_TIME_S)
        self._step("all nodes are healthy")

    def _say_about_mounts(self) -> None:
        why = next((node.why_no_mount for node in self._nodes.values() if node.mount is None), "")
        if why:
            self._step(f"no mounts on this machine ({why}); everything but 'break --how hang-mount' works")

    def _step(self, words: str) -> None:
        self._say(f"[{time.monotonic() - self._began:4.1f}s] {words}")

    def _state(self) -> RunState:
        owned = {child.name for node in self._nodes.values() for child in node.children}
        return RunState(
            port=self._plan.port,
            pid=os.getpid(),
            directory=str(self._workspace.directory),
            control=str(self._workspace.control),
            nats=self._nats_url,
            processes=_pids([child for child in self._supervisor.children if child.name not in owned]),
            nodes={name: NodeState(str(node.directory), _pids(node.children)) for name, node in self._nodes.items()},
        )

    async def _on_request(self, request: Request) -> Answer:
        if request.action == "status":
            return Answer(status=self.status())
        if not self.ready.is_set():
            raise CommandError("the pipeline is still starting; try again in a few seconds")
        node = self._nodes.get(request.node)
        if node is None:
            raise CommandError(f"no node is called {request.node}; the nodes are {', '.join(self._nodes)}")
        async with self._one_order:
            answer = await (
                break_node(node, request.how, self._supervisor)
                if request.action == "break"
                else heal_node(node, self._supervisor)
            )
            write_state(self._state())  # process ids may have changed
        return answer

    def status(self) -> Status:
        """The picture at this moment."""
        ages: dict[str, float] = {}
        for reporter, age_s in (self._replica.ages() if self._replica else {}).items():
            node = node_of(reporter)
            ages[node] = max(age_s, ages.get(node, 0.0))
        return Status(
            gateway=self.gateway_url,
            nats=self._nats_url,
            ready=self.ready.is_set(),
            nodes=[self._board.node_view(n.name, ages.get(n.name), list(n.broken_by)) for n in self._nodes.values()],
            decisions=list(self._board.decisions),
        )


def _pids(children: Iterable[Child]) -> dict[str, int]:
    return {child.name: child.pid for child in children if child.pid is not None}
