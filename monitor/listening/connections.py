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
import ssl
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any, cast

import structlog

from monitor.listening.file_descriptors import connection_cap, descriptor_limit
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.settings import ConnectionLimits
from monitor.listening.sources import TrustedProxies, source_of_host
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock

log = structlog.get_logger()

_BACKLOG = 1_024
_ACCEPTS_AT_ONCE = 32  # of one turn of the loop, which others need as well
_SWEEP_SECONDS = 0.5
_PAUSE_LOG_SECONDS = 60.0
_SOURCES_LOGGED = 5
# Of a known source. A third: a machine has two sources where it has both protocols, and those leave
# others a place. Not less: a proxy that is not trusted, or a busy sender, is one source.
_SHARE_OF_A_SOURCE = 3
_LEAST_OF_A_SOURCE = 4
_MOST_OF_A_STRANGER = 64
_RESERVED_PART = 8
_KNOWN_SOURCES = 1_000
_KNOWN_SECONDS = 3_600.0  # after a source has authenticated
_KNOWN_AGAIN_SECONDS = 60.0  # so often that is noted at most
_ANSWER_SECONDS = 1.0  # after a request, for its answer to leave
_TLS_END_SECONDS = 5.0  # for a peer to answer that a TLS connection ends
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

ProtocolFactory = Callable[[], asyncio.Protocol]


class GatedConnection(asyncio.Protocol):
    """One accepted connection: passes everything on to its HTTP protocol."""

    def __init__(
        self, gate: ConnectionGate, peer: str, source: str, *, is_proxy: bool, is_known: bool
    ) -> None:
        self._gate = gate
        self._inner = gate.make_protocol()
        self._transport: asyncio.Transport | None = None
        self._accepted_at = gate.clock.monotonic()
        self._unread_from: float | None = None  # since when the peer takes nothing
        self._closing_from: float | None = None
        self.peer = peer
        self.source = source
        self.is_proxy = is_proxy
        self.is_known = is_known
        self.known_from: float | None = None  # when it authenticated last
        self.accepting: asyncio.Task[None] | None = None  # which makes it a connection
        self.idle_from = self._accepted_at  # while no request is in work
        self.has_request = False  # set when the first request's head has arrived
        self.has_tls = False

    def source_of(self, forwarded_for: Sequence[str]) -> str:
        """Return the source of a request on this connection."""
        if not self.is_proxy:
            return self.source
        return self._gate.proxies.source(self.peer, forwarded_for)

    def begin_request(self) -> None:
        """Note that the head of a request has arrived."""
        self.has_request = True
        self._gate.set_busy(self)

    def end_request(self) -> None:
        """Note that a request has its answer, which may still be on its way."""
        self.idle_from = self._gate.clock.monotonic()
        self._gate.set_idle(self)

    def authenticate(self) -> None:
        """Note that the peer has shown right credentials."""
        self._gate.know(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.has_tls = transport.get_extra_info("sslcontext") is not None
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
        elif self.accepting is not None:
            self.accepting.cancel()


class ConnectionGate:
    """Listens on an address and holds so many connections at once as the limits allow.

    At the cap of one source its next connection is closed. At the cap in all, that connection of a
    stranger is closed which is without a request for the longest time; strangers never have the
    reserve, which is for known sources. Where none of them can be closed accepting pauses: the
    system lets further clients wait.
    """

    def __init__(
        self,
        listener: str,
        *,
        limits: ConnectionLimits,
        proxies: TrustedProxies,
        refusals: Refusals,
        clock: Clock,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """``tls`` returns the context for the next connection; None: there is no TLS."""
        self.clock = clock
        self._tls = tls
        self.proxies = proxies
        self._listener = listener
        self._limits = limits
        self._refusals = refusals
        self._sockets: list[socket.socket] = []
        self._connections: set[GatedConnection] = set()
        self._by_source: Tally[str] = Tally()
        # Those of strangers without a request in work, the longest first.
        self._idle: dict[GatedConnection, None] = {}
        self._local = TrustedProxies(limits.local)
        # Source -> when it authenticated (monotonic).
        self._known: BoundedMemory[str, float] = BoundedMemory(_KNOWN_SOURCES)
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
        self._per_stranger = self._limits.per_source or min(share, _MOST_OF_A_STRANGER)
        reserve = self._limits.reserve
        self._reserve = self._total // _RESERVED_PART if reserve is None else reserve
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
        self._idle.pop(connection, None)
        self._by_source[connection.source] -= 1
        if not self._by_source[connection.source]:
            del self._by_source[connection.source]
        if self._is_paused and self._sockets and len(self._connections) < self._total:
            self._resume()

    def set_busy(self, connection: GatedConnection) -> None:
        """Close this connection for no other: a request is in work."""
        self._idle.pop(connection, None)

    def set_idle(self, connection: GatedConnection) -> None:
        """Let this connection be closed for others, where a stranger has it."""
        if not connection.is_known and connection in self._connections:
            self._idle[connection] = None

    def know(self, connection: GatedConnection) -> None:
        """Count the source as known from now on: it has authenticated."""
        now = self.clock.monotonic()
        last = connection.known_from
        # Behind a proxy anybody may send the next request.
        if connection.is_proxy or (last is not None and now - last < _KNOWN_AGAIN_SECONDS):
            return
        connection.is_known, connection.known_from = True, now
        self._idle.pop(connection, None)
        self._known.put(connection.source, now)

    def _is_known(self, peer: str, source: str) -> bool:
        at = self._known.get(source)
        is_fresh = at is not None and self.clock.monotonic() - at < _KNOWN_SECONDS
        return is_fresh or self._local.trusts(peer)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            if len(self._connections) >= self._total and not self._made_room():
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
        is_known = is_proxy or self._is_known(peer, source)
        # Behind a proxy it is the sender of each request that counts, not the proxy.
        most = self.per_source if is_known else self._per_stranger
        if (not is_proxy and self._by_source[source] >= most) or not (
            is_known or self._has_room_for_strangers()
        ):
            accepted.close()
            self._refusals.add(RefusalReason.TOO_MANY_CONNECTIONS, source)
            return
        connection = GatedConnection(self, peer, source, is_proxy=is_proxy, is_known=is_known)
        self._connections.add(connection)
        self._by_source[source] += 1
        self.set_idle(connection)
        # Handing a socket to the loop is its only way to become a connection, and takes two turns.
        task = self._loop.create_task(self._hand_over(accepted, connection), name="connection")
        connection.accepting = task
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _has_room_for_strangers(self) -> bool:
        is_full = len(self._connections) >= self._total - self._reserve
        return not is_full or self._made_room()

    def _made_room(self) -> bool:
        """Close the connection that is idle for the longest time; False where none may be."""
        connection = next(iter(self._idle), None)
        if connection is None:
            return False
        idle_seconds = self.clock.monotonic() - connection.idle_from
        if connection.has_request and idle_seconds < _ANSWER_SECONDS:
            return False
        self._refusals.add(RefusalReason.TOO_MANY_CONNECTIONS, connection.source)
        connection.abort()
        self.release(connection)
        return True

    async def _hand_over(self, accepted: socket.socket, connection: GatedConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, **self._tls_options()
            )
        except OSError as exc:  # it went away meanwhile, or the handshake failed
            if isinstance(exc, ssl.SSLError):
                self._refusals.add(RefusalReason.TLS_HANDSHAKE, connection.source)
            accepted.close()
            self.release(connection)
        except asyncio.CancelledError:
            connection.accepting = None
            connection.abort()
            accepted.close()
            self.release(connection)
            raise

    def _tls_options(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {
            "ssl": self._tls(),
            "ssl_handshake_timeout": self._limits.head_seconds,
            "ssl_shutdown_timeout": _TLS_END_SECONDS,
        }

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
