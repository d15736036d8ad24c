"""Sends single requests to one workspace: within the budget, with retries and checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.catalogue.operations import Edition, Operation, operation
from monitor.model.clock import Clock
from monitor.model.errors import (
    LeaseUncertainError,
    NotAvailableError,
    PayloadError,
    ThrottledError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceError,
    WorkspaceUnreachableError,
)
from monitor.model.lease_check import MaySend
from monitor.model.secrets import Secret
from monitor.workspace.access.access_tokens import AccessTokens, ConfiguredToken
from monitor.workspace.answer_headers import WorkspaceTime, quotas_in, retry_after_in
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.decoding import RowKind
from monitor.workspace.error_map import (
    failure_of,
    foreign_answer_error,
    is_about_the_operation,
    refusal_in,
)
from monitor.workspace.files import BodyReceiver
from monitor.workspace.foreign_answers import foreign_refusal, foreign_success, is_of_shape
from monitor.workspace.priority import Priority
from monitor.workspace.request_budget import RequestBudget
from monitor.workspace.retry_policy import Failure, Retrying, RetryPolicy, RetryReason, Success
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.transport import (
    EXECUTION_ID,
    Exchange,
    NotSentError,
    QueryValue,
    Transport,
    flat_query,
    headers_of,
    path_of,
)

T = TypeVar("T")

# Repeating these leaves the workspace as doing them once does.
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_WITH_BODY = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


class Answer(Struct, frozen=True, kw_only=True):
    """A 2xx answer, or 304 to an execution id that was used before. Header names ignore case.

    ``began_at`` is the workspace's time when the request was sent, never later than the truth.
    """

    status_code: int
    headers: Mapping[str, str]
    body: bytes
    began_at: datetime | None


class _Call(Struct, frozen=True, kw_only=True):
    """One operation with everything that one try needs."""

    operation: Operation
    path: str
    query: list[tuple[str, str]]
    body: Any
    headers: Mapping[str, str]
    priority: Priority
    wait_seconds: float
    secrets: tuple[Secret, ...]
    receiver: BodyReceiver | None
    is_probe: bool

    @property
    def is_repeatable(self) -> bool:
        return self.operation.method in _REPEATABLE or any(
            name.lower() == EXECUTION_ID for name in self.headers
        )

    @property
    def quota_of(self) -> str | None:
        """The operation, where its quota is its own; None where it would bind everything."""
        return self.operation.operation_id if self.operation.quota_per_minute else None


class Requester:
    """Sends requests to one workspace. Used from one event loop."""

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        random: Random | None = None,
        may_send: MaySend | None = None,
        tokens: AccessTokens | None = None,
    ) -> None:
        """Without ``tokens``, the one of the settings is sent."""
        self.settings = settings
        self.name = settings.name
        self.edition: Edition | None = settings.edition
        self.answering = asyncio.Event()  # cleared from outside while all operations fail
        self.answering.set()
        self._clock = clock
        self._metrics = ApiMetrics.of(registry)
        self.transport = Transport(settings, clock=clock, may_send=may_send)
        self._tokens = tokens or ConfiguredToken(
            settings.token, workspace=settings.name, clock=clock
        )
        self.time = WorkspaceTime(clock)
        self._answered: set[str] = set()
        self._unavailable: dict[str, str] = {}  # id -> the refusal
        self.budget = RequestBudget(
            workspace=settings.name,
            requests_per_minute=settings.requests_per_minute,
            clock=clock,
            metrics=self._metrics,
        )
        self._retrying = Retrying(
            RetryPolicy(retries=settings.retries, total_seconds=settings.retry_total_seconds),
            clock=clock,
            random=random or Random(),  # noqa: S311 - spreads retries, protects nothing
            count=self._count_retry,
        )

    async def close(self) -> None:
        """Drop the connections; requests under way and later ones fail as unreachable."""
        await self.transport.close()

    @property
    def answered(self) -> frozenset[str]:
        """Ids of operations that the workspace has answered well, in this life."""
        return frozenset(self._answered)

    @property
    def unavailable(self) -> frozenset[str]:
        """Ids of operations that the workspace proved not to offer us; they are not sent."""
        return frozenset(self._unavailable)

    def refusal_of(self, operation_id: str) -> str:
        """Return how the workspace refuses an operation that is `unavailable`."""
        return self._unavailable[operation_id]

    def forget_unavailable(self, *operation_ids: str) -> None:
        """Let these operations, or without any named all, be tried again."""
        for operation_id in operation_ids or self.unavailable:
            self._unavailable.pop(operation_id, None)

    async def request(
        self,
        operation_id: str,
        *path_values: object,
        query: Mapping[str, QueryValue] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        priority: Priority,
        wait_seconds: float = 30.0,
        secrets: Iterable[Secret] = (),
        receiver: BodyReceiver | None = None,
        is_probe: bool = False,
    ) -> Answer:
        """Send one operation of the catalogue and return its good answer.

        ``wait_seconds`` bounds the wait for a turn in the budget before each try. ``secrets`` are
        texts in ``body`` that no error may repeat. A request that changes something is tried
        again only if it cannot have arrived, or carries an ``x-execution-id``, as all that start
        a run do: no retry starts a second one, and 304 means that an earlier try had started it.
        ``receiver`` takes the body in the place of ``Answer.body``. ``is_probe``: to find out
        whether the workspace answers again, it is sent once, in a pause too, which a good answer
        ends.

        Raises:
            WorkspaceError: every kind of the tree; `BudgetExhaustedError` and a
                `NotAvailableError` without status code mean that nothing was sent.
            LocalFileError: an upload cannot be read, or the receiver cannot write.
            KeyError: the catalogue has no such operation.
        """
        called = self.require_available(operation_id)
        call = _Call(
            operation=called,
            path=path_of(called, path_values),
            query=flat_query(query or {}),
            body=body,
            headers=headers_of(called, headers or {}),
            priority=priority,
            wait_seconds=wait_seconds,
            secrets=tuple(secrets),
            receiver=receiver,
            is_probe=is_probe,
        )
        try:
            answer = await self._authorized(call)
        except NotAvailableError as error:
            if is_about_the_operation(error, called):
                self._unavailable[operation_id] = str(error)
            raise
        if operation_id not in self._answered and is_of_shape(operation_id, answer.body):
            self._answered.add(operation_id)
        return answer

    async def _authorized(self, call: _Call) -> Answer:
        """Send with the token of now; one that is refused is renewed, and the request repeated."""
        sent: list[Secret | None] = []  # the newest last

        async def attempt() -> Success[Answer] | Failure:
            result = await self._try(call, sent)
            # In an outage retries would only multiply the requests.
            if isinstance(result, Failure) and (call.is_probe or not self.answering.is_set()):
                return Failure(error=result.error)
            return result

        what = call.operation.operation_id
        try:
            return await self._retrying.run(attempt, what=what)
        except UnauthorizedError:
            # Without a sent token none can be had, and the error says why.
            if not sent or not await self._tokens.renew(sent[-1]):
                raise
        return await self._retrying.run(attempt, what=what)

    async def _try(self, call: _Call, sent: list[Secret | None]) -> Success[Answer] | Failure:
        await self.budget.acquire(
            call.priority,
            wait_seconds=call.wait_seconds,
            operation_id=call.operation.operation_id,
            has_own_quota=call.quota_of is not None,
            is_probe=call.is_probe,
        )
        try:
            token = await self._tokens.current()
        except WorkspaceError as error:  # nothing was sent
            error.operation_id = call.operation.operation_id
            raise
        sent.append(token)
        if token is not None:
            call = msgspec.structs.replace(call, secrets=(*call.secrets, token))
        try:
            exchange = await self.transport.send(
                call.operation.method,
                call.path,
                query=call.query,
                body=call.body,
                headers=call.headers,
                token=token,
                receiver=call.receiver,
            )
        except WorkspaceUnreachableError as error:
            self._count_request(call, "unreachable")
            error.operation_id = call.operation.operation_id
            may_repeat = call.is_repeatable or isinstance(error, NotSentError)
            return Failure(error=error, reason=RetryReason.NETWORK if may_repeat else None)
        except LeaseUncertainError as error:
            error.operation_id = call.operation.operation_id
            raise
        except UnreadableAnswerError as error:
            self._count_request(call, "too_large")
            error.operation_id = call.operation.operation_id
            raise
        self._count_request(call, str(exchange.status_code))
        self._metrics.duration.labels(call.operation.operation_id).observe(
            self._clock.monotonic() - exchange.began
        )
        result = self._judge(call, exchange)
        if call.is_probe and isinstance(result, Success):
            self.budget.resume()  # before it learns what this answer says of quotas
        self._learn_quotas(call, exchange)
        return result

    def _learn_time(self, exchange: Exchange) -> None:
        """Take the clock from an answer of the API; a proxy before it has another one."""
        self.time.learn(
            exchange.headers.get("Date"), began=exchange.began, answered=exchange.answered
        )

    def _learn_quotas(self, call: _Call, exchange: Exchange) -> None:
        if quotas := quotas_in(exchange.headers):
            now = self.time.now() or self._clock.now()
            self.budget.learn(quotas, operation_id=call.quota_of, workspace_now=now.timestamp())

    def _judge(self, call: _Call, exchange: Exchange) -> Success[Answer] | Failure:
        status_code, headers, body = exchange.status_code, exchange.headers, exchange.body
        called = call.operation
        if status_code // 100 == HTTPStatus.OK // 100 or status_code == HTTPStatus.NOT_MODIFIED:
            if call.receiver is None and status_code in _WITH_BODY:
                is_proven = called.operation_id in self._answered
                found = foreign_success(called, headers, body, is_proven=is_proven)
                if found is not None:
                    return Failure(error=foreign_answer_error(status_code, found, operation=called))
            self._learn_time(exchange)
            at = self.time.at(exchange.began)
            return Success(Answer(status_code=status_code, headers=headers, body=body, began_at=at))
        refusal = refusal_in(body, secrets=call.secrets)
        found = foreign_refusal(status_code, headers, body, has_envelope=refusal.has_envelope)
        if found is None:
            self._learn_time(exchange)
        wait_seconds = retry_after_in(headers, now=self.time.now())
        failure = failure_of(status_code, refusal, operation=called, wait_seconds=wait_seconds)
        if found is not None:
            error = foreign_answer_error(status_code, found, operation=called)
            failure = msgspec.structs.replace(failure, error=error)
        if isinstance(failure.error, ThrottledError):
            self.budget.pause(failure.error.retry_after_seconds, operation_id=call.quota_of)
            long_pause = None if call.quota_of else self.budget.long_pause(called.operation_id)
            return failure if long_pause is None else Failure(error=long_pause)
        if not call.is_repeatable:
            # A server that failed may have done the work before it did.
            return Failure(error=failure.error)
        return failure

    def require_available(self, operation_id: str) -> Operation:
        """Return the operation, unless it is known not to be offered; sends nothing.

        Raises:
            NotAvailableError: the edition lacks it, or the workspace has proved so.
            KeyError: the catalogue has no such operation.
        """
        called = operation(operation_id)
        if self.edition is not None and not called.is_part_of(self.edition):
            raise NotAvailableError(
                f"{operation_id} is not part of edition {self.edition}; {called.editions_text}",
                operation_id=operation_id,
            )
        if operation_id in self._unavailable:
            raise NotAvailableError(
                f"{operation_id} was found not to be offered here", operation_id=operation_id
            )
        return called

    def _count_request(self, call: _Call, code: str) -> None:
        self._metrics.requests.labels(self.name, call.operation.operation_id, code).inc()

    def _count_retry(self, reason: RetryReason) -> None:
        self._metrics.retries.labels(self.name, reason.value).inc()


@contextmanager
def reading(operation_id: str) -> Iterator[None]:
    """Turn what cannot be read within into the error that names the operation."""
    try:
        yield
    except PayloadError as exc:
        raise UnreadableAnswerError(
            f"the answer of {operation_id} {exc}", operation_id=operation_id
        ) from exc


def decoded(kind: RowKind[T], answer: Answer, operation_id: str) -> T:
    """Read an answer that is one object.

    Raises:
        UnreadableAnswerError: it is not JSON, or not of that shape.
    """
    with reading(operation_id):
        return kind.decode(answer.body)
