"""The network between one daemon and one database server: cut, silent, or slow at one request."""

from __future__ import annotations

import asyncio

from tests.servers import Relay


class Network(Relay):
    """Passes everything on until it is told to hold; what is held is passed on later."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._passes = asyncio.Event()
        self._passes.set()
        self._awaited: bytes | None = None
        self._holds_answer = False
        self._caught = asyncio.Event()

    def lead_to(self, port: int) -> None:
        """Reach another server from the next connection on."""
        self._target_port = port

    def hold(self) -> None:
        """Keep what either side sends; connections stay open, new ones get no answer."""
        self._passes.clear()

    def release(self) -> None:
        """Deliver what was kept, in order."""
        self._awaited = None
        self._passes.set()

    async def hold_at_request(self, text: bytes, *, answer: bool = False) -> None:
        """Return when a request with this text was sent, which from then on is held.

        ``answer`` lets the request pass and holds what the server answers.
        """
        self._caught.clear()
        self._holds_answer = answer
        self._awaited = text
        await self._caught.wait()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while chunk := await reader.read(65_536):
                is_caught = not is_answer and self._awaited is not None and self._awaited in chunk
                if is_caught:
                    self._awaited = None
                    self.hold()
                    self._caught.set()
                if not (is_caught and self._holds_answer):
                    await self._passes.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass  # cut; the other side is told below
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
