"""The frame around the handlers of both listeners: connection gate, headers, sources."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Coroutine
from ssl import SSLContext
from typing import Any, cast

import structlog
from aiohttp import hdrs, web
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy, istr

from monitor.listening.connections import ConnectionGate, GatedConnection
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.served_certificate import (
    CertificateLoaded,
    ServedCertificate,
    not_shown,
)
from monitor.listening.settings import AddressSettings
from monitor.listening.sources import TrustedProxies
from monitor.model.clock import Clock
from monitor.model.errors import AddressError

log = structlog.get_logger()

# uvloop has no class of its own for a write to a socket that is gone already.
_UVLOOP_CLOSED = "the handler is closed"
_SERVER = "dataprep-monitor"  # without a version, which tells an attacker what to try
# Names in the form that the library compares without converting them each time.
_CONTENT_TYPE_OPTIONS = istr("X-Content-Type-Options")
_CACHE_CONTROL = istr("Cache-Control")
_REFERRER_POLICY = istr("Referrer-Policy")
_RESOURCE_POLICY = istr("Cross-Origin-Resource-Policy")
_HSTS = istr("Strict-Transport-Security")
_FORWARDED = "X-Forwarded-For"
_FORWARDED_SCHEME = "X-Forwarded-Proto"
_HEADERS = 64  # of at most 8 KiB each: a browser behind two proxies sends thirty
_LINGERING_SECONDS = 2.0  # for a refused body to run dry, so that its sender sees the answer
STOP_SECONDS = 5.0  # for requests in work, when the listener stops
_NOWHERE = "unknown"  # the connection is over, so the answer is not read
_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class RequestErrors:
    """Stands where the library of a server expects a logger.

    Anybody can send any bytes, or hang up at any time, so ``harmless`` exceptions must not fill the
    log with traces; their texts may hold a secret and are not repeated. Any other exception is a
    bug of ours and is logged with its trace.
    """

    def __init__(self, *, harmless: tuple[type[BaseException], ...]) -> None:
        self._harmless = harmless

    def debug(self, message: str, *_: object, **__: object) -> None:
        """Drop what the library calls a detail."""

    def exception(
        self, message: str, *_: object, exc_info: BaseException | None = None, **__: object
    ) -> None:
        if isinstance(exc_info, self._harmless) or _is_closed_transport(exc_info):
            log.debug("request invalid or aborted", error=type(exc_info).__name__)
            return
        # The message without its values: they are the sender's words, with a query perhaps.
        log.error("request failed", exc_info=exc_info, reason=message)


def _is_closed_transport(error: BaseException | None) -> bool:
    return isinstance(error, RuntimeError) and str(error).endswith(_UVLOOP_CLOSED)


class HttpListener:
    """One address, with its limits of connections, and headers on every answer."""

    def __init__(
        self,
        key: str,
        *,
        settings: AddressSettings,
        refusals: Refusals,
        clock: Clock,
        on_certificate: CertificateLoaded = not_shown,
        needs_client_certificate: bool = False,
        hsts_seconds: int = 0,
        address_key: str = "listen",
    ) -> None:
        """``key`` is the section of the configuration that names the address, by ``address_key``.

        Browsers use TLS alone for ``hsts_seconds`` after an answer over TLS; 0: they are told
        nothing.
        """
        self._key = key
        self._address_key = address_key
        self._settings = settings
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._refusals = refusals
        self._certificate = (
            None
            if settings.tls is None
            else ServedCertificate(
                key,
                settings.tls,
                needs_client=needs_client_certificate,
                clock=clock,
                on_loaded=on_certificate,
            )
        )
        self._hsts = f"max-age={hsts_seconds}" if hsts_seconds else None
        self._gate = ConnectionGate(
            key,
            limits=settings.connections,
            proxies=self._proxies,
            refusals=refusals,
            clock=clock,
            tls=self._context_of(self._certificate),
        )
        self._requests_of: Tally[str] = Tally()  # in work, behind trusted proxies
        self._runner: web.BaseRunner | None = None

    @staticmethod
    def _context_of(certificate: ServedCertificate | None) -> Callable[[], SSLContext] | None:
        return None if certificate is None else lambda: certificate.context

    def options(self) -> dict[str, Any]:
        """Return the options of the `web.Server` that the runner makes."""
        return {
            # Its lines would hold paths, and a path may hold a secret.
            "access_log": None,
            "logger": RequestErrors(harmless=(HttpProcessingError, ConnectionError)),
            "keepalive_timeout": self._settings.connections.idle_seconds,
            "max_headers": _HEADERS,
            "lingering_time": _LINGERING_SECONDS,
        }

    async def start(self, runner: web.BaseRunner) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            AddressError: the address cannot be listened on.
            ConfigurationError: certificate and key cannot be used.
        """
        if self._certificate is not None:
            await self._certificate.load()
        await runner.setup()
        server = cast("web.Server", runner.server)
        server.request_factory = _with_headers(server.request_factory, self._hsts)
        server.request_handler = self._limited(server.request_handler)
        try:
            port = await self._gate.open(self._settings.host, self._settings.port, server)
        except OSError as exc:
            await runner.cleanup()
            raise AddressError(
                f"{self._key}.{self._address_key}: {self._settings.listen} cannot be listened on "
                f"({exc.strerror}): free the port or choose another"
            ) from exc
        self._runner = runner
        return port

    def tasks(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """Return what runs beside the listener, by name."""
        if self._certificate is None:
            return {}
        return {f"{self._key} certificate": self._certificate.run}

    def renew_certificate(self) -> None:
        """Load the certificate again now if its files have changed."""
        if self._certificate is not None:
            self._certificate.check_now()

    async def stop(self) -> None:
        """Stop listening; requests in work are answered first, within a bound."""
        if self._runner is None:
            return
        self._gate.close()
        await self._runner.cleanup()
        self._gate.abort()
        self._runner = None

    def _limited(self, handler: _Handler) -> _Handler:
        """Return the handler with the cap of a source, for senders behind trusted proxies.

        Of the others the gate sees the connections.
        """

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            connection = _connection(request)
            if connection is None:
                return await handler(request)
            if not connection.is_proxy:
                try:
                    return await handler(request)
                finally:
                    connection.end_request()
            source = source_of(request)
            if self._requests_of[source] >= self._gate.per_source:
                self._refusals.add(RefusalReason.TOO_MANY_CONNECTIONS, source)
                return web.Response(status=429, headers={"Retry-After": "1"})
            self._requests_of[source] += 1
            try:
                return await handler(request)
            finally:
                self._requests_of[source] -= 1
                if not self._requests_of[source]:
                    del self._requests_of[source]

        return handle


def source_of(request: web.BaseRequest) -> str:
    """Return the address that a request comes from, behind trusted proxies the forwarded one."""
    connection = _connection(request)
    if connection is None:
        return _NOWHERE
    return connection.source_of(request.headers.getall(_FORWARDED, ()))


def remember_authenticated(request: web.BaseRequest) -> None:
    """Count the source of a request as known: its credentials are right."""
    connection = _connection(request)
    if connection is not None:
        connection.authenticate()


def is_from_proxy(request: web.BaseRequest) -> bool:
    """True where a trusted proxy sends the request."""
    connection = _connection(request)
    return connection is not None and connection.is_proxy


def is_secure(request: web.BaseRequest) -> bool:
    """True where the client speaks TLS: with us, or with the trusted proxy that says so."""
    return _is_secure(_connection(request), request.headers)


def _is_secure(connection: GatedConnection | None, headers: CIMultiDictProxy[str]) -> bool:
    if connection is None:
        return False
    if connection.has_tls:
        return True
    if not connection.is_proxy:
        return False
    # Of several proxies the last one speaks with us.
    schemes = ",".join(headers.getall(_FORWARDED_SCHEME, ())).split(",")
    return schemes[-1].strip().lower() == "https"


def _connection(request: web.BaseRequest) -> GatedConnection | None:
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, GatedConnection) else None


def _with_headers(
    make_request: Callable[..., web.BaseRequest], hsts: str | None
) -> Callable[..., web.BaseRequest]:
    """Return a factory of requests whose answers carry our headers, the library's own as well."""

    def make(
        message: Any, payload: Any, protocol: web.RequestHandler, writer: StreamWriter, task: Any
    ) -> web.BaseRequest:
        own = _Writer(protocol, writer.loop)
        request = make_request(message, payload, protocol, own, task)
        connection = _connection(request)
        if connection is not None:
            connection.begin_request()
        if hsts is not None and _is_secure(connection, message.headers):
            own.hsts = hsts
        return request

    return make


class _Writer(StreamWriter):
    """Every answer passes here, also one to bytes that are no request."""

    hsts: str | None = None

    def write_headers(
        self, status_line: str, headers: CIMultiDict[str]
    ) -> Coroutine[Any, Any, None]:
        headers[hdrs.SERVER] = _SERVER
        headers[_CONTENT_TYPE_OPTIONS] = "nosniff"
        # Not `no-referrer`, under which a browser hides the origin of our own page's forms.
        headers[_REFERRER_POLICY] = "same-origin"
        # What says nothing of it is for one reader, and of now.
        headers.setdefault(_CACHE_CONTROL, "no-store")
        # No page of another site may embed an answer, but for those that are made for it.
        headers.setdefault(_RESOURCE_POLICY, "same-origin")
        if self.hsts is not None:
            headers[_HSTS] = self.hsts
        return super().write_headers(status_line, headers)
