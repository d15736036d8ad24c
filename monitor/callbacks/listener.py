"""Accepts callbacks over HTTP. Answers 204 only when the callback is durable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import NamedTuple, Protocol, Self

import structlog
from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.bus.contract import Received, StoredCallback
from monitor.callbacks import bodies, callback_signature
from monitor.callbacks.settings import CallbackSettings, ListenerSettings, SignatureMode
from monitor.callbacks.task_secrets import task_signing_secret
from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import (
    STOP_SECONDS,
    HttpListener,
    remember_authenticated,
    source_of,
)
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.served_certificate import CertificateLoaded, not_shown
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, PayloadError
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret

log = structlog.get_logger()

SECRET_HEADER = "X-Monitor-Secret"  # noqa: S105 - the name of the header, not its value
# Names the flow whose task calls, so that the secret is judged before the body is read. The secret
# beside it is this task's own then.
FLOW_HEADER = "X-Monitor-Flow"
# In the answer to a test call, which only who knows the secret can make: whose listener it is.
STORE_HEADER = "X-Monitor-Store"
OUTCOMES = (
    "accepted",
    "duplicate",
    "test",
    "wrong_secret",
    "bad_signature",
    "other_flow",
    "too_large",
    "bad_payload",
    "overloaded",
)
_JSON = "application/json"
_READABLE = (_JSON, "text/plain", "application/x-www-form-urlencoded")
# The secret stands in a header or, for tasks made by hand, after the workspace.
_PATH = re.compile(r"/hooks/([^/]+)(?:/([^/]+))?", re.DOTALL)
_DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WARN_AGAIN_SECONDS = 60.0
_REASONS = (
    RefusalReason.TOO_MANY_CONNECTIONS,
    RefusalReason.TLS_HANDSHAKE,
    RefusalReason.WRONG_CREDENTIALS,
)
# Judges where no workspace does, so that a miss takes the time of a hit.
_NO_CALLBACKS = CallbackSettings()


class Receive(Protocol):
    """Takes a callback; on return it is durable, or there was no room. See `EventBus.receive`."""

    async def __call__(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received: ...


class _Refusal(Exception):  # noqa: N818 - an answer on its way out, never raised outside
    """The callback is not taken; nothing was stored."""

    def __init__(
        self, outcome: str, status: int, *, retry_after_seconds: int | None = None
    ) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class _Sender(NamedTuple):
    """What a request says of its sender before its body; empty where it says nothing."""

    workspace: str
    secret: str
    task_flow_id: str | None  # None: a task with the secret of all callbacks


class _Entrance(NamedTuple):
    """What a callback of one workspace is checked against."""

    settings: CallbackSettings
    key: Secret | None  # of signatures; None: not checked
    shared: callback_signature.Verifier | None  # of tasks with the secret of all callbacks

    @classmethod
    def of(cls, settings: CallbackSettings) -> Self:
        key = settings.signing_secret
        if key is None or settings.signature is SignatureMode.OFF:
            return cls(settings, None, None)
        return cls(settings, key, callback_signature.Verifier(key))

    def verifier(self, sender: _Sender) -> callback_signature.Verifier | None:
        """Return what checks the signatures of this sender; None where none are checked."""
        if self.key is None or sender.task_flow_id is None:
            return self.shared
        key = task_signing_secret(self.key, workspace=sender.workspace, flow_id=sender.task_flow_id)
        return callback_signature.Verifier(key)


class CallbackListener:
    """The listener for callbacks and nothing else."""

    def __init__(
        self,
        *,
        settings: ListenerSettings,
        workspaces: Mapping[str, CallbackSettings],
        receive: Receive,
        clock: Clock,
        registry: CollectorRegistry,
        on_certificate: CertificateLoaded = not_shown,
        store_id: str | None = None,
    ) -> None:
        self._settings = settings
        self._store_id = store_id
        self.replace_workspaces(workspaces)
        self._keep = receive
        self._clock = clock
        self._in_flight = 0
        self._warn_from: dict[tuple[str, str], float] = {}  # by workspace and warning
        refused = Counter(
            "dataprep_monitor_callback_refusals",
            "Connections and requests that the callback listener refused, by reason.",
            ["reason"],
            registry=registry,
        )
        refusals = Refusals("callbacks", refused, reasons=_REASONS, clock=clock)
        self._wrong = InvalidCredentials(
            refusals, clock=clock, delay_seconds=settings.wrong_secret_delay_seconds
        )
        self._listener = HttpListener(
            "callbacks",
            settings=settings,
            refusals=refusals,
            clock=clock,
            on_certificate=on_certificate,
            needs_client_certificate=True,
        )
        requests = Counter(
            "dataprep_monitor_callback_requests",
            "Callbacks that arrived, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self._counters = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        self._durations = Histogram(
            "dataprep_monitor_callback_request_duration_seconds",
            "Seconds from the head of a callback to its answer.",
            registry=registry,
            buckets=_DURATIONS,
        )

    def replace_workspaces(self, workspaces: Mapping[str, CallbackSettings]) -> None:
        """Use other settings from the next callback on."""
        self._entrances = {name: _Entrance.of(workspace) for name, workspace in workspaces.items()}
        self._names = {f"/hooks/{name}": name for name in workspaces}

    async def start(self) -> int:
        """Listen, and return the port (of use where the settings say 0).

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        # There is one handler: an application and its router would only cost time, each time.
        server = web.Server(self._receive, **self._listener.options())
        return await self._listener.start(web.ServerRunner(server, shutdown_timeout=STOP_SECONDS))

    def tasks(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """Return what runs beside the listener, by name."""
        return self._listener.tasks()

    def renew_certificate(self) -> None:
        """Load the certificate again now if its files have changed."""
        self._listener.renew_certificate()

    async def stop(self) -> None:
        """Stop listening; callbacks in work are answered first, within a bound."""
        await self._listener.stop()

    async def _receive(self, request: web.BaseRequest) -> web.Response:
        began = self._clock.monotonic()
        self._in_flight += 1
        headers: dict[str, str] = {}
        try:
            if hdrs.EXPECT in request.headers:
                await _send_continue(request)
            outcome, status = await self._take(request), 204
        except _Refusal as refusal:
            outcome, status = refusal.outcome, refusal.status
            if refusal.retry_after_seconds is not None:
                headers["Retry-After"] = str(refusal.retry_after_seconds)
        finally:
            self._in_flight -= 1
        if outcome == "test" and self._store_id is not None:
            headers[STORE_HEADER] = self._store_id
        self._counters[outcome].inc()
        self._durations.observe(self._clock.monotonic() - began)
        if outcome == "wrong_secret":  # not in work any more: it must not make others wait
            await self._wrong.delay(source_of(request))
        return web.Response(status=status, headers=headers)

    async def _take(self, request: web.BaseRequest) -> str:
        sender = self._sender(request)
        entrance = self._admit(sender, request)
        if self._in_flight > self._settings.in_flight_limit:
            raise _Refusal("overloaded", 503, retry_after_seconds=1)
        body = await self._body(request)
        self._check_signature(sender, entrance, request, body)
        if bodies.is_test(body):
            return "test"
        try:
            statement = bodies.read(body)
        except PayloadError as exc:
            log.info("callback unreadable", workspace=sender.workspace, reason=str(exc))
            raise _Refusal("bad_payload", 400) from exc
        self._check_flow(sender, statement)
        return await self._store(sender, entrance.settings, statement)

    def _sender(self, request: web.BaseRequest) -> _Sender:
        # Nearly all know the path as it is; to take an address apart costs more.
        name = self._names.get(request.raw_path)
        name, secret = (name, _secret(request)) if name is not None else _address(request)
        return _Sender(name, secret, request.headers.get(FLOW_HEADER))

    def _admit(self, sender: _Sender, request: web.BaseRequest) -> _Entrance:
        entrance = self._entrances.get(sender.workspace)
        settings = _NO_CALLBACKS if entrance is None else entrance.settings
        is_right = settings.accepts(
            sender.secret,
            workspace=sender.workspace,
            task_flow_id=sender.task_flow_id,
            now=self._clock.now(),
        )
        is_callback = request.method == hdrs.METH_POST
        if entrance is None or not is_right or not is_callback:
            raise _Refusal("wrong_secret", 404)
        remember_authenticated(request)
        return entrance

    async def _body(self, request: web.BaseRequest) -> bytes:
        stated = request.headers.get(hdrs.CONTENT_TYPE, _JSON)
        if stated != _JSON and not _is_readable(request.content_type):
            raise _Refusal("bad_payload", 415)
        limit = self._settings.body_limit_bytes
        try:
            if request.content.is_eof():  # it came with the head, as most do: nothing to wait for
                body = request.content.read_nowait()
            else:
                async with asyncio.timeout(self._settings.body_timeout_seconds):
                    body = await _read(request.content, limit_bytes=limit)
        except TimeoutError as exc:
            raise _Refusal("bad_payload", 408) from exc
        except (web.RequestPayloadError, HttpProcessingError, OSError) as exc:
            # OSError: the sender went away in the middle; this answer is not read.
            raise _Refusal("bad_payload", 400) from exc
        if len(body) > limit:
            raise _Refusal("too_large", 413)
        return body

    def _check_signature(
        self, sender: _Sender, entrance: _Entrance, request: web.BaseRequest, body: bytes
    ) -> None:
        verifier = entrance.verifier(sender)
        if verifier is None:
            return
        header = request.headers.get(callback_signature.HEADER)
        if verifier.accepts(header, body, now=self._clock.now()):
            return
        if entrance.settings.signature is SignatureMode.REQUIRE:
            raise _Refusal("bad_signature", 401)
        self._counters["bad_signature"].inc()
        # Where the assumption is wrong every callback fails the check: the counter shows how many.
        self._warn(sender, "callback signature does not match the assumed scheme")

    def _check_flow(self, sender: _Sender, statement: bodies.CallbackStatement) -> None:
        """Refuse what the task of a flow can never send. Whose run it is shows only later."""
        flow_id = sender.task_flow_id
        is_of_a_task = statement.kind is RunKind.JOB_GROUP and statement.flow_id in (None, flow_id)
        if flow_id is not None and not is_of_a_task:
            self._warn(sender, "callback with the secret of another flow's task")
            raise _Refusal("other_flow", 403)

    def _warn(self, sender: _Sender, text: str) -> None:
        """Log this about a workspace at most once a minute: others decide how often it happens."""
        now, key = self._clock.monotonic(), (sender.workspace, text)
        if now >= self._warn_from.get(key, now):
            self._warn_from[key] = now + _WARN_AGAIN_SECONDS
            log.warning(text, workspace=sender.workspace, task_of=sender.task_flow_id)

    async def _store(
        self, sender: _Sender, settings: CallbackSettings, statement: bodies.CallbackStatement
    ) -> str:
        callback = StoredCallback(
            workspace=sender.workspace,
            kind=statement.kind,
            run_id=statement.run_id,
            native_status=statement.native_status,
            flow_id=statement.flow_id,
            task_key=statement.task_key,
            task_flow_id=sender.task_flow_id,
            received_at=self._clock.now(),
            fingerprint=_fingerprint(statement, sender.task_flow_id),
        )
        try:
            received = await self._keep(
                callback,
                inbox_bound=settings.inbox_bound,
                timeout_seconds=self._settings.commit_timeout_seconds,
            )
        except BusUnavailableError as exc:
            log.warning("callback not stored", workspace=sender.workspace, reason=str(exc))
            raise _Refusal("overloaded", 503, retry_after_seconds=5) from exc
        if received is Received.FULL:
            raise _Refusal("overloaded", 429, retry_after_seconds=60)
        return "accepted" if received is Received.STORED else "duplicate"


def _fingerprint(statement: bodies.CallbackStatement, task_flow_id: str | None) -> str:
    # Otherwise the task of one flow could make callbacks of another look like repetitions.
    of_task = "" if task_flow_id is None else f":{task_flow_id}"
    return statement.fingerprint + of_task


def _address(request: web.BaseRequest) -> tuple[str, str]:
    """Return the workspace and the secret that a sender names, empty where it names none."""
    match = _PATH.fullmatch(request.rel_url.path_safe)
    name, secret = match.groups("") if match is not None else ("", "")
    return _whole(name), _whole(secret) or _secret(request)


def _secret(request: web.BaseRequest) -> str:
    return request.headers.get(SECRET_HEADER, "")


def _whole(part: str) -> str:
    # A path comes decoded but for these two, so that a slash within a part divides nothing.
    return part.replace("%2F", "/").replace("%25", "%") if "%" in part else part


async def _send_continue(request: web.BaseRequest) -> None:
    """Let a sender that asks first send; any other expectation is ignored."""
    if request.headers[hdrs.EXPECT].lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


async def _read(content: StreamReader, *, limit_bytes: int) -> bytes:
    """Return the body, or so much of it that it passes the limit."""
    body = bytearray()
    while len(body) <= limit_bytes and (piece := await content.readany()):
        body += piece
    return bytes(body)


def _is_readable(content_type: str) -> bool:
    return content_type in (*_READABLE, "application/octet-stream") or content_type.endswith(
        "+json"
    )
