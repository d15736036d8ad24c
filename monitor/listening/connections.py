"""Accepts the connections of one listener, within its caps.

`ConnectionGate` owns the listening sockets and the set of connections; everything here runs on the
event loop. asyncio's own server is not used: it accepts without a bound, and where descriptors run
out it logs a trace for each attempt, for as long as clients keep connecting.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import cast

import structlog

from monitor.listening.file_descriptors import connection_cap, descriptor_limit
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.settings import ConnectionLimits
from monitor.listening.sources import TrustedProxies, source_of_host
from monitor.model.clock import Clock

log = structlog.get_logger()

_BACKLOG = 1_024
_ACCEPTS_AT_ONCE = 32  # of one turn of the loop, which others need as well
_SWEEP_SECONDS = 0.5
_PAUSE_LOG_SECONDS = 60.0
_SOURCES_LOGGED = 5
# A third: a machine has two sources where it has both protocols, and those leave others a place.
# Not less: a proxy that is not trusted, or a client with a hundred connections, is one source.
_SHARE_OF_A_SOURCE = 3
_LEAST_OF_A_SOURCE = 4
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

ProtocolFactory = Callable[[], asyncio.Protocol]


class GatedConnection(asyncio.Protocol):
    """One accepted connection: passes everything on to its HTTP protocol."""

    def __init__(self, gate: ConnectionGate, peer: str, source: str, *, is_proxy: bool) -> None:
        self._gate = gate
        self._inner = gate.make_protocol()
        self._transport: asyncio.Transport | None = None
        self._accepted_at = gate.clock.monotonic()
        self._unread_from: float | None = None  # since when the peer takes nothing
        self._closing_from: float | None = None
        self.peer = peer
        self.source = source
        self.is_proxy = is_proxy
        self.has_request = False  # set when the first request's head has arrived

    def source_of(self, forwarded_for: Sequence[str]) -> str:
        """Return the source of a request on this connection."""
        if not self.is_proxy:
            return self.source
        return self._gate.proxies.source(self.peer, forwarded_for)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._unread_from = self._gate.clock.monotonic()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._unread_from = None
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
        self._gate.release(self)

    def enforce(self, now: float, limits: ConnectionLimits) -> None:
        """End the connection if it takes longer than it may.

        The time between two requests is the HTTP protocol's to watch.
        """
        if self._transport is None:
            return
        if self._transport.is_closing():
            # A peer that takes nothing keeps its buffer and its descriptor without end.
            self._closing_from = now if self._closing_from is None else self._closing_from
            is_over = now - self._closing_from >= limits.idle_seconds
        elif self._unread_from is not None:
            is_over = now - self._unread_from >= limits.idle_seconds
        else:
            is_over = not self.has_request and now - self._accepted_at >= limits.head_seconds
        if is_over:
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class ConnectionGate:
    """Listens on an address and holds so many connections at once as the limits allow.

    At the cap of one source its next connection is closed. At the cap in all, accepting pauses:
    the system lets further clients wait, so no client that may be a good one is closed.
    """

    def __init__(
        self,
        listener: str,
        *,
        limits: ConnectionLimits,
        proxies: TrustedProxies,
        refusals: Refusals,
        clock: Clock,
    ) -> None:
        self.clock = clock
        self.proxies = proxies
        self._listener = listener
        self._limits = limits
        self._refusals = refusals
        self._sockets: list[socket.socket] = []
        self._connections: set[GatedConnection] = set()
        self._by_source: Tally[str] = Tally()
        self._accepting: set[asyncio.Task[None]] = set()
        self._is_paused = False
        self._pause_log_from: float | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int, make_protocol: ProtocolFactory) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._loop = asyncio.get_running_loop()
        self.make_protocol = make_protocol
        self._total = self._limits.total or connection_cap(descriptor_limit())
        share = max(_LEAST_OF_A_SOURCE, self._total // _SHARE_OF_A_SOURCE)
        self.per_source = self._limits.per_source or share
        try:
            await self._bind(host, port)
        except OSError:
            self.close()
            raise
        self._resume()
        self._sweep()
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    async def _bind(self, host: str, port: int) -> None:
        infos = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(infos):
            try:
                listening = socket.create_server(address, family=family, backlog=_BACKLOG)
            except OSError as exc:
                # `localhost` may have an address of a family that the machine does not use.
                if exc.errno in _NOT_HERE and len(infos) > 1:
                    continue
                raise
            listening.setblocking(False)
            self._sockets.append(listening)
        if not self._sockets:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))

    def close(self) -> None:
        """Accept no more; connections that are there stay."""
        self._pause()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for task in self._accepting:
            task.cancel()
        self._refusals.log_rest()

    def abort(self) -> None:
        """End the connections that are still there."""
        for connection in tuple(self._connections):
            connection.abort()

    def release(self, connection: GatedConnection) -> None:
        """Forget a connection that is over."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._by_source[connection.source] -= 1
        if not self._by_source[connection.source]:
            del self._by_source[connection.source]
        if self._is_paused and self._sockets and len(self._connections) < self._total:
            self._resume()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            if len(self._connections) >= self._total:
                self._pause()
                self._log_pause("its connections are at their cap")
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:  # no file descriptors or no memory: again after the next sweep
                self._pause()
                self._log_pause(exc.strerror or type(exc).__name__)
                return
            self._take(accepted, str(address[0]))

    def _take(self, accepted: socket.socket, peer: str) -> None:
        source, is_proxy = source_of_host(peer), self.proxies.trusts(peer)
        # Behind a proxy it is the sender of each request that counts, not the proxy.
        if not is_proxy and self._by_source[source] >= self.per_source:
            accepted.close()
            self._refusals.add(RefusalReason.TOO_MANY_CONNECTIONS, source)
            return
        connection = GatedConnection(self, peer, source, is_proxy=is_proxy)
        self._connections.add(connection)
        self._by_source[source] += 1
        # Handing a socket to the loop is its only way to become a connection, and takes two turns.
        task = self._loop.create_task(self._hand_over(accepted, connection), name="connection")
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _hand_over(self, accepted: socket.socket, connection: GatedConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # it went away meanwhile
            accepted.close()
            self.release(connection)
        except asyncio.CancelledError:
            connection.abort()
            accepted.close()
            self.release(connection)
            raise

    def _pause(self) -> None:
        self._is_paused = True
        for listening in self._sockets:
            self._loop.remove_reader(listening)

    def _resume(self) -> None:
        self._is_paused = False
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _log_pause(self, reason: str) -> None:
        now = self.clock.monotonic()
        if self._pause_log_from is not None and now < self._pause_log_from:
            return
        self._pause_log_from = now + _PAUSE_LOG_SECONDS
        log.warning(
            "listener paused accepting",
            listener=self._listener,
            reason=reason,
            connections=len(self._connections),
            sources=dict(self._by_source.most_common(_SOURCES_LOGGED)),
        )

    def _sweep(self) -> None:
        self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        now = self.clock.monotonic()
        for connection in tuple(self._connections):
            connection.enforce(now, self._limits)
        self._refusals.log_due()
        if self._is_paused and len(self._connections) < self._total:
            self._resume()  # descriptors may be free again, without notice
