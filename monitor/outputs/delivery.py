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
from monitor.model.waits import backoff_seconds
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


class _DeliveryRun:
    """One run of a delivery, from the stored position on; thrown away when the run ends."""

    def __init__(self, position: int) -> None:
        self.window = Window()
        self.position = position  # end of the unbroken prefix of what is settled
        self.committed = position
        self.read_until = position
        self.uncommitted = 0  # events between the two
        self.letters: list[DeadLetter] = []
        self.problem: BaseException | None = None  # an answer that no output may give
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
        self._delivery_run = _DeliveryRun(0)
        for outcome in ("delivered", "refused", "failed", "skipped", "lost"):
            metrics.notifications.labels(self._name, outcome)

    async def run(self) -> None:
        """Deliver until cancelled; what was acknowledged by then is made durable first."""
        position = await self._bus.subscribe(self._name, start=Start.NEWEST)
        self._delivery_run = run = _DeliveryRun(position)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(run), name=f"{self._name}: read the log")
                tasks.create_task(self._keep_position(run), name=f"{self._name}: keep position")
                tasks.create_task(self._send_again(run), name=f"{self._name}: send again")
        finally:
            await self._close(run)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that the log holds now is settled and durable; False if it took longer."""
        end = self._clock.monotonic() + timeout_seconds
        newest = (await self._bus.status()).newest_position
        while self._delivery_run.committed < newest:
            if self._clock.monotonic() >= end:
                return False
            await self._clock.sleep(_DRAIN_LOOK_SECONDS)
        return True

    async def _close(self, run: _DeliveryRun) -> None:
        run.has_failed.set()  # a late answer must not hand on what the next run will read
        try:
            await self._commit(run, timeout_seconds=_FINAL_COMMIT_SECONDS)
        except BusUnavailableError as exc:
            # Told again after the next start, under the same ids.
            log.warning("the last position is not stored", output=self._name, reason=str(exc))

    # --- reading ---

    async def _read(self, run: _DeliveryRun) -> None:
        await self._output.ready()
        while True:
            # What is settled behind one that fails takes no room: only what others take meanwhile
            # shows whether the receiver or that one event is the cause.
            room = min(
                self._settings.window - run.window.unsettled,
                self._settings.uncommitted - run.uncommitted - len(run.window),
            )
            if room <= 0:
                run.has_room.clear()
                await run.has_room.wait()
                continue
            try:
                await self._read_once(run, room)
            except BusUnavailableError as exc:
                log.warning("the log cannot be read", output=self._name, reason=str(exc))
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _read_once(self, run: _DeliveryRun, room: int) -> None:
        batch = await self._bus.read(self._name, after=run.read_until, limit=room)
        if not batch.events and batch.gap is None:
            wait_seconds = self._settings.wait_seconds
            await self._bus.wait(run.read_until, timeout_seconds=wait_seconds)
            return
        self._take_in(run, batch)
        self._hand_on(run)

    def _take_in(self, run: _DeliveryRun, batch: Batch) -> None:
        if (gap := batch.gap) is not None:
            log.warning("retention took events", output=self._name, lost=gap.lost, until=gap.until)
            self._metrics.notifications.labels(self._name, "lost").inc(gap.lost)
            run.window.append(gap.until, None)
            run.read_until = gap.until
        for recorded in batch.events:
            run.window.append(recorded.position, recorded.event)
            run.read_until = recorded.position

    # --- handing on ---

    def _hand_on(self, run: _DeliveryRun) -> None:
        # Nothing here awaits, so that nothing can come between two events of one run.
        self._take_prefix(run)
        for entry in run.window.waiting():
            if run.has_failed.is_set():
                break
            self._send(run, entry)
        self._take_prefix(run)

    def _send(self, run: _DeliveryRun, entry: Entry) -> None:
        if entry.event is None:
            return
        run.window.mark_sent(entry, at=self._clock.monotonic())
        answer = self._output.send(Recorded(entry.position, entry.event))
        if answer is None:
            run.window.mark_skipped(entry)
            return
        run.has_answers.clear()
        answer.add_done_callback(lambda done: self._settle(run, entry, done))

    def _settle(self, run: _DeliveryRun, entry: Entry, answer: asyncio.Future[None]) -> None:
        failure = (
            OutputUnavailableError("given up by the output")
            if answer.cancelled()
            else answer.exception()
        )
        if isinstance(failure, OutputUnavailableError):
            is_connection_lost = isinstance(failure, OutputConnectionLostError)
            run.window.mark_failed(entry, is_connection_lost=is_connection_lost)
            run.has_failed.set()
            self._metrics.notifications.labels(self._name, "failed").inc()
        elif failure is None or isinstance(failure, OutputRefusedError):
            run.window.mark_settled(entry, reason=None if failure is None else str(failure))
            seconds = self._clock.monotonic() - entry.sent_at
            self._metrics.duration_seconds.labels(self._name).observe(seconds)
        else:
            run.problem = failure
            run.has_failed.set()
        if run.window.sent == 0:
            run.has_answers.set()
        was_careful = run.window.is_careful
        self._take_prefix(run)
        if was_careful and not run.has_failed.is_set():
            self._hand_on(run)

    def _take_prefix(self, run: _DeliveryRun) -> None:
        for entry in run.window.take_settled():
            run.position = entry.position
            run.uncommitted += 1
            if entry.event is None:
                continue
            if entry.reason is not None:
                self._refuse(run, entry, entry.reason)
            outcome = "skipped" if entry.sent_in_round == 0 else "delivered"
            outcome = "refused" if entry.reason is not None else outcome
            self._metrics.notifications.labels(self._name, outcome).inc()
        if run.position != run.committed:
            run.has_progress.set()
        run.has_room.set()

    def _refuse(self, run: _DeliveryRun, entry: Entry, reason: str) -> None:
        if entry.event is None:
            return
        log.warning(
            "an event was refused", output=self._name, event_id=entry.event.id, reason=reason
        )
        run.letters.append(
            DeadLetter(
                position=entry.position,
                event=entry.event,
                reason=reason,
                refused_at=self._clock.now(),
            )
        )

    # --- after a failure ---

    async def _send_again(self, run: _DeliveryRun) -> None:
        while True:
            await run.has_failed.wait()
            if run.problem is not None:
                raise run.problem
            if run.window.sent:
                # Bounded by the output, which owes every answer within a stated time.
                await run.has_answers.wait()
            failures = run.window.failures_of_the_oldest()
            wait_seconds = backoff_seconds(
                failures,
                base_seconds=self._settings.backoff_base_seconds,
                cap_seconds=self._settings.backoff_cap_seconds,
            )
            log.info(
                "will send again", output=self._name, in_seconds=wait_seconds, failures=failures
            )
            await self._clock.sleep(wait_seconds)
            await self._output.ready()
            run.window.rewind(attempts=self._settings.attempts)
            run.has_failed.clear()
            self._hand_on(run)

    # --- the position ---

    async def _keep_position(self, run: _DeliveryRun) -> None:
        while True:
            await run.has_progress.wait()
            # One commit for all that is acknowledged meanwhile.
            await self._clock.sleep(self._settings.commit_interval_seconds)
            run.has_progress.clear()
            try:
                await self._commit(run, timeout_seconds=self._settings.commit_timeout_seconds)
            except BusUnavailableError as exc:
                log.warning("the position is not stored", output=self._name, reason=str(exc))
                run.has_progress.set()
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _commit(self, run: _DeliveryRun, *, timeout_seconds: float) -> None:
        if run.position == run.committed:
            return
        position, uncommitted, letters = run.position, run.uncommitted, tuple(run.letters)
        step = Step(consumer=self._name, position=position, dead_letters=letters)
        await self._bus.advance(step, timeout_seconds=timeout_seconds)
        run.committed = position
        run.uncommitted -= uncommitted
        del run.letters[: len(letters)]
        run.has_room.set()
