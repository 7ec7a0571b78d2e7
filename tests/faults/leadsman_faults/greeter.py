"""A server that speaks first, as far as its greeting: a Ceph monitor, for example."""

import asyncio


class Greeter:
    """Sends `greeting` to every client, unless `silent`: then it accepts and says nothing."""

    def __init__(self, greeting: bytes) -> None:
        self.silent = False
        self._greeting = greeting

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        try:
            if not self.silent:
                writer.write(self._greeting)
                await writer.drain()
            await reader.read()
        except (OSError, asyncio.CancelledError):  # the client went away, or the whole program ends
            return
        finally:
            writer.close()
