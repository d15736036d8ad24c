"""Posts to one Alertmanager, one request after the other, so that no alert overtakes itself.

Two things are posted: alerts from the log, and again and again all that fire, since an Alertmanager
forgets an alert that is not repeated. Both go through the task ``post``, which alone changes
``_ended`` and ``reason``; the task ``resend`` only fills ``_due``. What is repeated is read when
it is posted, so that no repetition revives an alert that was posted as resolved. The log too is
read again, from the stored position on, after a restart and by the next holder: what it says of an
alert that is over, or that a newer one follows, would take an Alertmanager back, and is not posted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import structlog
from msgspec import Struct

from monitor.model.alerts import Alert, AlertingSnapshot, AlertState
from monitor.model.clock import Clock
from monitor.model.errors import OutputError, OutputRefusedError, OutputUnavailableError
from monitor.model.slices import in_slices
from monitor.outputs.alertmanager.posting import JSON, body_of
from monitor.outputs.event_output import give_answer
from monitor.outputs.http import HttpReceiver

log = structlog.get_logger()

T = TypeVar("T")

_AT_ONCE = 64  # alerts in one request
_RESOLVED_KEPT_SECONDS = 900.0  # for so long a resolved alert is repeated, as Prometheus does
_SOONER = 4  # after a failure the next repetition comes so many times sooner


class _Ended(Struct, frozen=True):
    """An end that was posted; ``at`` is monotonic."""

    alert: Alert
    at: float


class Sender:
    """The only one who posts to this Alertmanager."""

    def __init__(
        self,
        receiver: HttpReceiver,
        *,
        name: str,
        clock: Clock,
        resend_seconds: float,
        alerting: Callable[[], AlertingSnapshot],
        time_of: Callable[[Alert, datetime], datetime],
    ) -> None:
        self._receiver = receiver
        self._name = name
        self._clock = clock
        self._resend_seconds = resend_seconds
        self._alerting = alerting
        self._time_of = time_of
        self._queue: deque[tuple[Alert, asyncio.Future[None]]] = deque()
        self._due: deque[str] = deque()  # fingerprints to be repeated
        self._snapshot: AlertingSnapshot | None = None  # that `_firing` is of
        self._firing: dict[str, Alert] = {}
        self._newest: dict[str, Alert] = {}  # of each fingerprint, resolved ones too
        self._ended: dict[str, _Ended] = {}
        self._refused: set[tuple[str, datetime]] = set()  # repeating those would be noise
        self._has_work = asyncio.Event()
        self.reason: str | None = None  # why the last request had no answer

    def put(self, alert: Alert) -> asyncio.Future[None]:
        """Queue a start or an end; the future ends with the Alertmanager's answer."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((alert, answer))
        self._has_work.set()
        return answer

    async def run(self) -> None:
        """Post until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._resend(), name=f"{self._name}: resend")
                tasks.create_task(self._work(), name=f"{self._name}: post")
        finally:
            self._due.clear()
            while self._queue:
                give_answer(self._queue.popleft()[1], OutputUnavailableError("stopped"))
            await self._receiver.close()

    async def _resend(self) -> None:
        while True:
            await self._receiver.ready()
            self._due = deque(await self._repeatable())
            self._has_work.set()
            await self._clock.sleep(self._resend_seconds / (1 if self.reason is None else _SOONER))

    async def _work(self) -> None:
        while True:
            await self._has_work.wait()
            # News first: however much there is to repeat, it waits for one request at most.
            if self._queue:
                await self._post_news()
            elif self._due:
                await self._repeat()
            else:
                self._has_work.clear()

    async def _post_news(self) -> None:
        """Post alerts from the log, in its order; of one fingerprint what the log says last."""
        news = _taken(self._queue)
        # Not by their starts: the evidence may say that the next one began before the last one.
        last = {alert.fingerprint: alert for alert, _ in (*news, *self._queue)}
        try:
            await self._gather_firing()
            current = [
                (alert, answer)
                for alert, answer in news
                if last[alert.fingerprint] is alert and not self._is_outdated(alert)
            ]
            failures = await self._post([alert for alert, _ in current]) if current else []
            for (alert, answer), failure in zip(current, failures, strict=True):
                if failure is None:
                    self._remember_end(alert)
                give_answer(answer, failure)
            for _, answer in news:  # the others: there is nothing to post of them any more
                give_answer(answer, None)
        finally:
            for _, answer in news:
                give_answer(answer, OutputUnavailableError("stopped"))

    def _is_outdated(self, alert: Alert) -> bool:
        """True where an Alertmanager that was posted what followed would go back.

        A start is outdated once the alert is over, an end once a newer alert fires.
        """
        key, starts_at = alert.fingerprint, alert.starts_at
        newest = self._newest.get(key)
        if alert.state is AlertState.RESOLVED:
            return key in self._firing and self._firing[key].starts_at > starts_at
        if newest is not None and newest.starts_at == starts_at:
            return newest.state is AlertState.RESOLVED
        ended = self._ended.get(key)
        return (newest is not None and newest.starts_at > starts_at) or (
            ended is not None and ended.alert.starts_at >= starts_at
        )

    def _remember_end(self, alert: Alert) -> None:
        if alert.state is AlertState.RESOLVED:
            self._ended[alert.fingerprint] = _Ended(alert, self._clock.monotonic())
        else:
            self._ended.pop(alert.fingerprint, None)

    async def _repeat(self) -> None:
        """Post what stands, as far as its turn has come."""
        firing = await self._gather_firing()
        alerts = [
            alert for key in _taken(self._due) if (alert := self._present(key, firing)) is not None
        ]
        if not alerts:
            return
        for alert, failure in zip(alerts, await self._post(alerts), strict=True):
            if isinstance(failure, OutputUnavailableError):
                self._due.clear()  # the next turn comes soon
                log.info("alert resend postponed", output=self._name, reason=str(failure))
                return
            if failure is not None:
                self._refused.add((alert.fingerprint, alert.starts_at))
                log.warning(
                    "alert resend refused",
                    output=self._name,
                    fingerprint=alert.fingerprint,
                    reason=str(failure),
                )

    async def _repeatable(self) -> list[str]:
        """Return what is to be repeated, and forget what is repeated no more."""
        since = self._clock.monotonic() - _RESOLVED_KEPT_SECONDS
        self._ended = {key: ended for key, ended in self._ended.items() if ended.at >= since}
        firing = await self._gather_firing()
        self._refused = {
            (key, starts_at)
            for key, starts_at in self._refused
            if key in firing and firing[key].starts_at == starts_at
        }
        return [*firing, *(key for key in self._ended if key not in firing)]

    async def _gather_firing(self) -> dict[str, Alert]:
        """Return what fires, by fingerprint; gathered once from each snapshot."""
        snapshot = self._alerting()
        if snapshot is self._snapshot:
            return self._firing
        firing: dict[str, Alert] = {}
        newest: dict[str, Alert] = {}
        async for alert in in_slices(snapshot.alerts):  # thousands may fire
            newest[alert.fingerprint] = alert
            if alert.is_notified and alert.state is AlertState.FIRING:
                firing[alert.fingerprint] = alert
        self._snapshot, self._firing, self._newest = snapshot, firing, newest
        return firing

    def _present(self, key: str, firing: Mapping[str, Alert]) -> Alert | None:
        """Return what is to be repeated of one fingerprint now."""
        ended, alert = self._ended.get(key), firing.get(key)
        # The log may have an end that is not yet part of the snapshot.
        if alert is None or (ended is not None and ended.alert.starts_at >= alert.starts_at):
            return None if ended is None else ended.alert
        return None if (key, alert.starts_at) in self._refused else alert

    async def _post(self, alerts: list[Alert]) -> list[OutputError | None]:
        """Post the alerts in one request and return what became of each; None where it is taken."""
        try:
            await self._learn_its_time()
            await self._receiver.post(self._body(alerts), headers=JSON)
            self.reason = None
        except OutputRefusedError as exc:
            self.reason = None
            if len(alerts) > 1:
                return await self._post_each(alerts)
            return [exc]
        except OutputUnavailableError as exc:
            self.reason = str(exc)
            return [exc] * len(alerts)
        return [None] * len(alerts)

    async def _learn_its_time(self) -> None:
        """Ask for its clock where that is not known against ours as it is now.

        By one that is behind its own, whatever fires would have lapsed: it would be resolved there.
        """
        if self._receiver.knows_ahead:
            return
        with contextlib.suppress(OutputRefusedError):  # its answer has the time all the same
            await self._receiver.post(b"[]", headers=JSON)
        if ahead := round(self._receiver.ahead_seconds):
            log.warning("clocks differ", output=self._name, ahead_seconds=ahead)

    def _body(self, alerts: list[Alert]) -> bytes:
        now = self._clock.now()
        return body_of(
            alerts,
            now=now + timedelta(seconds=self._receiver.ahead_seconds),
            resend_seconds=self._resend_seconds,
            time_of=lambda alert: self._time_of(alert, now),
        )

    async def _post_each(self, alerts: list[Alert]) -> list[OutputError | None]:
        """Post one after the other, because one that is refused takes all beside it along."""
        failures: list[OutputError | None] = []
        for alert in alerts:
            if failures and isinstance(failures[-1], OutputUnavailableError):
                failures.append(failures[-1])  # so that a silent receiver is waited for once
            else:
                failures += await self._post([alert])
        return failures


def _taken(queue: deque[T]) -> list[T]:
    """Take the next ones off the queue, as many as go into one request."""
    return [queue.popleft() for _ in range(min(len(queue), _AT_ONCE))]
