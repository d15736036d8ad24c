"""Carries events from the log to a receiver outside: at least once, in order, nothing skipped.

Three tasks share one window. One reads the log and hands events to the output; one makes the end
of the unbroken prefix of what is settled durable; one waits after a failure and sends again. An
acknowledgement that arrives early stays in the window until all before it are settled.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.bus.contract import Batch, DeadLetter, EventBus, Recorded, Start, Step
from monitor.model.clock import Clock
from monitor.model.errors import (
    BusUnavailableError,
    OutputConnectionLostError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.outputs.delivery_window import Entry, Window
from monitor.outputs.settings import DeliverySettings

log = structlog.get_logger()

_FINAL_COMMIT_SECONDS = 2.0  # for what was acknowledged by the time of the end
_DRAIN_LOOK_SECONDS = 0.05


class Output(Protocol):
    """A receiver outside the monitor."""

    name: str  # label ``output`` and name of the consumer

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Hand one event on, in the order of the calls; None if it is nothing for this output.

        The future ends when the receiver has acknowledged the event, or with an `OutputError`:
        `OutputRefusedError` for good, any other for now. It ends within a stated time.
        """

    async def ready(self) -> None:
        """Return when the receiver can be reached; waits as long as that takes."""


class DeliveryMetrics:
    """The series of all outputs; made once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.notifications = Counter(
            "dataprep_monitor_notifications",
            "Events by what became of them; lost are those that retention took.",
            ["output", "outcome"],
            registry=registry,
        )
        self.duration_seconds = Histogram(
            "dataprep_monitor_notification_duration_seconds",
            "Seconds from handing an event on until its acknowledgement.",
            ["output"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
            registry=registry,
        )


class _Course:
    """One run of a delivery, from the stored position on; thrown away when the run ends."""

    def __init__(self, position: int) -> None:
        self.window = Window()
        self.position = position  # end of the unbroken prefix of what is settled
        self.committed = position
        self.read_until = position
        self.uncommitted = 0  # events between the two
        self.letters: list[DeadLetter] = []
        self.fault: BaseException | None = None  # an answer that no output may give
        self.has_failed = asyncio.Event()  # nothing is handed on until the retry allows it
        self.has_room = asyncio.Event()
        self.has_progress = asyncio.Event()  # something to commit
        self.has_answers = asyncio.Event()  # nothing is without an answer


class Delivery:
    """Works through the log for one output. `run` may be started again after it ended."""

    def __init__(
        self,
        output: Output,
        *,
        bus: EventBus,
        clock: Clock,
        metrics: DeliveryMetrics,
        settings: DeliverySettings,
    ) -> None:
        self._output = output
        self._name = output.name
        self._bus = bus
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._course = _Course(0)
        for outcome in ("delivered", "refused", "failed", "skipped", "lost"):
            metrics.notifications.labels(self._name, outcome)

    async def run(self) -> None:
        """Deliver until cancelled; what was acknowledged by then is made durable first."""
        position = await self._bus.subscribe(self._name, start=Start.NEWEST)
        self._course = course = _Course(position)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(course), name=f"{self._name}: read the log")
                tasks.create_task(self._keep_position(course), name=f"{self._name}: keep position")
                tasks.create_task(self._send_again(course), name=f"{self._name}: send again")
        finally:
            await self._close(course)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that the log holds now is settled and durable; False if it took longer."""
        end = self._clock.monotonic() + timeout_seconds
        newest = (await self._bus.standing()).newest_position
        while self._course.committed < newest:
            if self._clock.monotonic() >= end:
                return False
            await self._clock.sleep(_DRAIN_LOOK_SECONDS)
        return True

    async def _close(self, course: _Course) -> None:
        course.has_failed.set()  # a late answer must not hand on what the next run will read
        try:
            await self._commit(course, timeout_seconds=_FINAL_COMMIT_SECONDS)
        except BusUnavailableError as exc:
            # Told again after the next start, under the same ids.
            log.warning("the last position is not stored", output=self._name, reason=str(exc))

    # --- reading ---

    async def _read(self, course: _Course) -> None:
        await self._output.ready()
        while True:
            # What is settled behind one that fails takes no room: only what others take meanwhile
            # shows whether the receiver or that one event is the cause.
            room = min(
                self._settings.window - course.window.unsettled,
                self._settings.uncommitted - course.uncommitted - len(course.window),
            )
            if room <= 0:
                course.has_room.clear()
                await course.has_room.wait()
                continue
            try:
                await self._read_once(course, room)
            except BusUnavailableError as exc:
                log.warning("the log cannot be read", output=self._name, reason=str(exc))
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _read_once(self, course: _Course, room: int) -> None:
        batch = await self._bus.read(self._name, after=course.read_until, limit=room)
        if not batch.events and batch.gap is None:
            wait_seconds = self._settings.wait_seconds
            await self._bus.wait(course.read_until, timeout_seconds=wait_seconds)
            return
        self._take_in(course, batch)
        self._hand_on(course)

    def _take_in(self, course: _Course, batch: Batch) -> None:
        if (gap := batch.gap) is not None:
            log.warning("retention took events", output=self._name, lost=gap.lost, until=gap.until)
            self._metrics.notifications.labels(self._name, "lost").inc(gap.lost)
            course.window.append(gap.until, None)
            course.read_until = gap.until
        for recorded in batch.events:
            course.window.append(recorded.position, recorded.event)
            course.read_until = recorded.position

    # --- handing on ---

    def _hand_on(self, course: _Course) -> None:
        # Nothing here awaits, so that nothing can come between two events of one run.
        self._take_prefix(course)
        for entry in course.window.waiting():
            if course.has_failed.is_set():
                break
            self._send(course, entry)
        self._take_prefix(course)

    def _send(self, course: _Course, entry: Entry) -> None:
        if entry.event is None:
            return
        course.window.mark_sent(entry, at=self._clock.monotonic())
        answer = self._output.send(Recorded(entry.position, entry.event))
        if answer is None:
            course.window.mark_skipped(entry)
            return
        course.has_answers.clear()
        answer.add_done_callback(lambda done: self._settle(course, entry, done))

    def _settle(self, course: _Course, entry: Entry, answer: asyncio.Future[None]) -> None:
        failure = (
            OutputUnavailableError("given up by the output")
            if answer.cancelled()
            else answer.exception()
        )
        if isinstance(failure, OutputUnavailableError):
            is_connection_lost = isinstance(failure, OutputConnectionLostError)
            course.window.mark_failed(entry, is_connection_lost=is_connection_lost)
            course.has_failed.set()
            self._metrics.notifications.labels(self._name, "failed").inc()
        elif failure is None or isinstance(failure, OutputRefusedError):
            course.window.mark_settled(entry, reason=None if failure is None else str(failure))
            seconds = self._clock.monotonic() - entry.sent_at
            self._metrics.duration_seconds.labels(self._name).observe(seconds)
        else:
            course.fault = failure
            course.has_failed.set()
        if course.window.sent == 0:
            course.has_answers.set()
        was_careful = course.window.is_careful
        self._take_prefix(course)
        if was_careful and not course.has_failed.is_set():
            self._hand_on(course)

    def _take_prefix(self, course: _Course) -> None:
        for entry in course.window.take_settled():
            course.position = entry.position
            course.uncommitted += 1
            if entry.event is None:
                continue
            if entry.reason is not None:
                self._refuse(course, entry, entry.reason)
            outcome = "skipped" if entry.sent_in_round == 0 else "delivered"
            outcome = "refused" if entry.reason is not None else outcome
            self._metrics.notifications.labels(self._name, outcome).inc()
        if course.position != course.committed:
            course.has_progress.set()
        course.has_room.set()

    def _refuse(self, course: _Course, entry: Entry, reason: str) -> None:
        if entry.event is None:
            return
        log.warning(
            "an event was refused", output=self._name, event_id=entry.event.id, reason=reason
        )
        course.letters.append(
            DeadLetter(
                position=entry.position,
                event=entry.event,
                reason=reason,
                refused_at=self._clock.now(),
            )
        )

    # --- after a failure ---

    async def _send_again(self, course: _Course) -> None:
        while True:
            await course.has_failed.wait()
            if course.fault is not None:
                raise course.fault
            if course.window.sent:
                # Bounded by the output, which owes every answer within a stated time.
                await course.has_answers.wait()
            failures = course.window.failures_of_the_oldest()
            wait_seconds = self._backoff_seconds(failures)
            log.info(
                "will send again", output=self._name, in_seconds=wait_seconds, failures=failures
            )
            await self._clock.sleep(wait_seconds)
            await self._output.ready()
            course.window.rewind(attempts=self._settings.attempts)
            course.has_failed.clear()
            self._hand_on(course)

    def _backoff_seconds(self, failures: int) -> float:
        base, cap = self._settings.backoff_base_seconds, self._settings.backoff_cap_seconds
        # Bounded, because a weekend of failures would overflow a float.
        return float(min(base * 2.0 ** min(max(failures - 1, 0), 60), cap))

    # --- the position ---

    async def _keep_position(self, course: _Course) -> None:
        while True:
            await course.has_progress.wait()
            # One commit for all that is acknowledged meanwhile.
            await self._clock.sleep(self._settings.commit_interval_seconds)
            course.has_progress.clear()
            try:
                await self._commit(course, timeout_seconds=self._settings.commit_timeout_seconds)
            except BusUnavailableError as exc:
                log.warning("the position is not stored", output=self._name, reason=str(exc))
                course.has_progress.set()
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _commit(self, course: _Course, *, timeout_seconds: float) -> None:
        if course.position == course.committed:
            return
        position, uncommitted, letters = course.position, course.uncommitted, tuple(course.letters)
        step = Step(consumer=self._name, position=position, dead_letters=letters)
        await self._bus.advance(step, timeout_seconds=timeout_seconds)
        course.committed = position
        course.uncommitted -= uncommitted
        del course.letters[: len(letters)]
        course.has_room.set()
