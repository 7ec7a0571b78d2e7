"""The unix socket through which other commands reach a running pipeline, from both ends."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from leadsman.domain.errors import LeadsmanError
from leadsman_cli.errors import CommandError
from leadsman_cli.messages import Answer, Request, Status
from leadsman_cli.runs import RunState, ask

Handler = Callable[[Request], Awaitable[Answer]]

_REQUEST_TIME_S = 5.0


async def serve_control(path: Path, handler: Handler) -> None:
    """Answer on `path` for ever; a request that fails is answered with its error."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIME_S):
                line = await reader.readline()
            if line:  # a bare connect only asks whether we live
                writer.write(msgspec.json.encode(await _answer(line, handler)))
                await writer.drain()
        except (OSError, TimeoutError, ValueError):  # the asker has gone, is silent, or sends without end
            return
        finally:
            writer.close()

    server = await asyncio.start_unix_server(on_connection, path)
    async with server:
        await server.serve_forever()


async def _answer(line: bytes, handler: Handler) -> Answer:
    try:
        return await handler(msgspec.json.decode(line, type=Request))
    except (LeadsmanError, msgspec.DecodeError) as error:
        return Answer(error=str(error))


def request(state: RunState, wish: Request) -> Answer:
    """Ask the owner of `state`.

    Raises:
        CommandError: it refuses, with its words, or does not answer.
    """
    raw = ask(state, msgspec.json.encode(wish))
    try:
        answer = msgspec.json.decode(raw, type=Answer)
    except msgspec.DecodeError as error:
        raise CommandError(f"the pipeline on port {state.port} broke off its answer; is it stopping?") from error
    if answer.error:
        raise CommandError(answer.error)
    return answer


def request_status(state: RunState) -> Status:
    """The picture of the pipeline of `state`.

    Raises:
        CommandError: it does not answer.
    """
    status = request(state, Request(action="status")).status
    if status is None:
        raise CommandError(f"the pipeline on port {state.port} is of another version; stop it and start it again")
    return status
