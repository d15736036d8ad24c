"""The network between one daemon and one database server: cut, silent, or slow at one request."""

from __future__ import annotations

import asyncio
import re
from types import TracebackType

from tests.servers import Relay

_EXECUTE = b"B"  # the messages that execute a prepared statement begin with its name
_FENCED = re.compile(
    rb"(__asyncpg_stmt_\w+)\0WITH fence "
)  # a statement is prepared that writes a shard


class Network(Relay):
    """Passes everything on until it is told to hold; what is held is passed on later."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port, late_seconds=0.0)
        self._passes = asyncio.Event()
        self._passes.set()
        self._is_write_awaited = False
        self._holds_answer = False
        self._caught = asyncio.Event()
        self._to_server: set[asyncio.StreamWriter] = set()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut()
        self.release()  # nothing receives it any more
        await super().__aexit__(kind, error, trace)

    def lead_to(self, port: int) -> None:
        """Reach another server from the next connection on."""
        self._target_port = port

    def hold(self) -> None:
        """Keep what either side sends; connections stay open, new ones get no answer."""
        self._passes.clear()

    def sever(self) -> None:
        """Hold, and let the server alone know that its connections are over."""
        self.hold()
        for writer in self._to_server:
            writer.transport.abort()

    def release(self) -> None:
        """Deliver what was kept, in order."""
        self._is_write_awaited = False
        self._passes.set()

    async def hold_at_write(self, *, answer: bool) -> None:
        """Return when the daemon has sent a write of a shard, and hold that from then on.

        ``answer`` lets the write pass and holds what the server answers.
        """
        self._caught.clear()
        self._holds_answer = answer
        self._is_write_awaited = True
        await self._caught.wait()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        fenced: set[bytes] = set()
        if not is_answer:
            self._to_server.add(writer)
        try:
            while chunk := await reader.read(65_536):
                if not is_answer:
                    fenced.update(_FENCED.findall(chunk))
                is_caught = (
                    self._is_write_awaited
                    and chunk[:1] == _EXECUTE
                    and not fenced.isdisjoint(chunk[5:80].split(b"\0")[1:2])
                )
                if is_caught:
                    self._is_write_awaited = False
                    self.hold()
                    self._caught.set()
                if not (is_caught and self._holds_answer):
                    await self._passes.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass  # cut; the other side is told below
        finally:
            if is_answer and not self._is_closed:
                await self._passes.wait()  # the end of the server's side is kept as well
            writer.transport.abort()
            self._writers.discard(writer)
            self._to_server.discard(writer)
