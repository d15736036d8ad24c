"""Delivers events from the log to an outside receiver: at least once, in order, none skipped.

Four tasks and the callbacks of the output's answers share one `_DeliveryRun`, all on the event
loop; what belongs together is changed without an await. ``read the log`` owns ``read_until`` and
fills the window; ``send again`` alone clears ``has_failed`` and rewinds the window. Two tasks store
the position, ``keep position`` with the commits of others and ``store at once`` with its own: both
may store at the same time, and the later position stands. An answer marks its own entry and moves
``position``, the end of the unbroken prefix of what is processed. An early acknowledgement stays in
the window until all before it are processed. A cancelled run stores the position it reached; what
was sent after it is sent again by the next run, under the same ids.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.bus.contract import Batch, DeadLetter, EventBus, Recorded, Start, Step
from monitor.model.clock import Clock
from monitor.model.errors import (
    BusError,
    BusUnavailableError,
    OutputConnectionLostError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.registries import made_once, process_registry
from monitor.model.waits import backoff_seconds, happens_within
from monitor.outputs.delivery_window import DeliveryWindow, WindowEntry
from monitor.outputs.settings import DeliverySettings

log = structlog.get_logger()

_FINAL_COMMIT_SECONDS = 2.0  # for what was acknowledged by the time of the end
_DRAIN_CHECK_SECONDS = 0.05


class Output(Protocol):
    """A receiver outside the monitor."""

    name: str  # label ``output`` and name of the consumer

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Send one event, in the order of the calls; None if it is nothing for this output.

        The future ends when the receiver has acknowledged the event, or with an `OutputError`:
        `OutputRefusedError` for good, any other for now. It ends within a stated time.
        """

    async def ready(self) -> None:
        """Return when the receiver can be reached; waits as long as that takes."""


class DeliveryMetrics:
    """The series of all outputs; get them by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.notifications = Counter(
            "dataprep_monitor_notifications",
            "Events by outcome; lost are those that retention removed.",
            ["output", "outcome"],
            registry=registry,
        )
        self.duration_seconds = Histogram(
            "dataprep_monitor_notification_duration_seconds",
            "Seconds from sending an event until its acknowledgement.",
            ["output"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
            registry=registry,
        )

    @staticmethod
    def of(registry: CollectorRegistry) -> DeliveryMetrics:
        """Return those of the process, made at the first call."""
        return made_once(DeliveryMetrics, process_registry(registry))


class _DeliveryRun:
    """One run of a delivery, from the stored position on; thrown away when the run ends."""

    def __init__(self, position: int) -> None:
        self.window = DeliveryWindow()
        self.position = position  # end of the unbroken prefix of what is processed
        self.committed = position
        self.read_until = position
        self.processed = 0  # events up to `position`
        self.stored = 0  # events up to `committed`
        self.letters: list[DeadLetter] = []
        self.problem: BaseException | None = None  # an answer that no output may give
        self.is_ending = False  # nothing is sent any more
        self.has_failed = asyncio.Event()  # nothing is sent until `_send_again` allows it
        self.has_room = asyncio.Event()
        self.has_progress = asyncio.Event()  # something to commit
        self.is_urgent = asyncio.Event()  # and at once
        self.is_answered = asyncio.Event()  # every event sent has its answer


class Delivery:
    """Delivers the log to one output. `run` may be started again after it ended."""

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
        self._settings = settings
        self._delivery_run = _DeliveryRun(0)
        self._counters = {
            outcome: metrics.notifications.labels(self._name, outcome)
            for outcome in ("delivered", "refused", "failed", "skipped", "lost")
        }
        self._duration_seconds = metrics.duration_seconds.labels(self._name)

    @property
    def position(self) -> int:
        """Return up to where all is processed in this run; 0 before the first one."""
        return self._delivery_run.position

    async def run(self) -> None:
        """Deliver until cancelled; what was acknowledged by then is made durable first."""
        position = await self._bus.subscribe(self._name, start=Start.NEWEST)
        self._delivery_run = run = _DeliveryRun(position)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(run), name=f"{self._name}: read the log")
                tasks.create_task(
                    self._store(
                        run, run.has_progress, within=self._settings.commit_interval_seconds
                    ),
                    name=f"{self._name}: keep position",
                )
                tasks.create_task(
                    self._store(run, run.is_urgent, within=0.0),
                    name=f"{self._name}: store at once",
                )
                tasks.create_task(self._send_again(run), name=f"{self._name}: send again")
        finally:
            await self._close(run)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that is in the log now is processed and durable; False if it took longer.

        The rest is delivered after the next start. A cancelled call leaves nothing behind.
        """
        end = self._clock.monotonic() + timeout_seconds
        try:
            newest = (await self._bus.status()).newest_position
        except BusError as exc:
            log.warning("backlog cannot be read", output=self._name, reason=str(exc))
            return False
        while self._delivery_run.committed < newest:
            if self._clock.monotonic() >= end:
                log.warning("output drained in part", output=self._name)
                return False
            if self._delivery_run.position >= newest:
                self._delivery_run.is_urgent.set()
            await self._clock.sleep(_DRAIN_CHECK_SECONDS)
        return True

    async def finish(self, *, timeout_seconds: float) -> None:
        """Send nothing more in this run; return when all that was sent is answered, or too late.

        What has no answer by then is sent again by the next run.
        """
        run = self._delivery_run
        run.is_ending = True
        if run.window.sent and not await happens_within(
            run.is_answered.wait(),
            clock=self._clock,
            seconds=timeout_seconds,
            name=f"{self._name}: last answers",
        ):
            log.warning("output stopped without all answers", output=self._name)

    async def _close(self, run: _DeliveryRun) -> None:
        run.is_ending = True  # a late answer must not send what the next run will read
        try:
            await self._commit(run, timeout_seconds=_FINAL_COMMIT_SECONDS)
        except BusUnavailableError as exc:
            # Sent again after the next start, under the same ids.
            log.warning("last position not stored", output=self._name, reason=str(exc))

    # --- reading ---

    async def _read(self, run: _DeliveryRun) -> None:
        await self._output.ready()
        while True:
            # What is processed after a failing event takes no room: only later successes show
            # whether the receiver or that event is the cause.
            room = min(
                self._settings.window - run.window.unprocessed,
                self._settings.uncommitted - (run.processed - run.stored) - len(run.window),
            )
            if room <= 0:
                run.has_room.clear()
                await run.has_room.wait()
                continue
            try:
                await self._read_once(run, room)
            except BusUnavailableError as exc:
                log.warning("log read failed", output=self._name, reason=str(exc))
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _read_once(self, run: _DeliveryRun, room: int) -> None:
        batch = await self._bus.read(self._name, after=run.read_until, limit=room)
        if batch.events or batch.gap is not None:
            self._fill_window(run, batch)
            self._send_waiting(run)
        if len(batch.events) < room:  # there was no more: nothing to read before something comes
            wait_seconds = self._settings.wait_seconds
            await self._bus.wait(run.read_until, timeout_seconds=wait_seconds)

    def _fill_window(self, run: _DeliveryRun, batch: Batch) -> None:
        if (gap := batch.gap) is not None:
            log.warning(
                "events lost to retention", output=self._name, lost=gap.lost, until=gap.until
            )
            self._counters["lost"].inc(gap.lost)
            run.window.append(gap.until, None)
            run.read_until = gap.until
        for recorded in batch.events:
            run.window.append(recorded.position, recorded.event, recorded.epoch)
            run.read_until = recorded.position

    # --- sending ---

    def _send_waiting(self, run: _DeliveryRun) -> None:
        # Nothing here awaits, so that nothing can come between two events of one run.
        self._take_prefix(run)
        for entry in run.window.waiting():
            if run.has_failed.is_set() or run.is_ending:
                break
            if not self._bus.may_publish():
                run.has_failed.set()  # it is asked again after a wait
                break
            self._send(run, entry)
        self._take_prefix(run)

    def _send(self, run: _DeliveryRun, entry: WindowEntry) -> None:
        if entry.event is None:
            return
        run.window.mark_sent(entry, at=self._clock.monotonic())
        answer = self._output.send(Recorded(entry.position, entry.event, entry.epoch))
        if answer is None:
            run.window.mark_skipped(entry)
            return
        run.is_answered.clear()
        answer.add_done_callback(lambda done: self._process_answer(run, entry, done))

    def _process_answer(
        self, run: _DeliveryRun, entry: WindowEntry, answer: asyncio.Future[None]
    ) -> None:
        failure = (
            OutputUnavailableError("given up by the output")
            if answer.cancelled()
            else answer.exception()
        )
        if isinstance(failure, OutputUnavailableError):
            is_connection_lost = isinstance(failure, OutputConnectionLostError)
            run.window.mark_failed(entry, is_connection_lost=is_connection_lost)
            run.has_failed.set()
            self._counters["failed"].inc()
        elif failure is None or isinstance(failure, OutputRefusedError):
            run.window.mark_processed(entry, reason=None if failure is None else str(failure))
            self._duration_seconds.observe(self._clock.monotonic() - entry.sent_at)
        else:
            run.problem = failure
            run.has_failed.set()
        if run.window.sent == 0:
            run.is_answered.set()
        sent_singly = run.window.sends_singly
        self._take_prefix(run)
        if sent_singly and not run.has_failed.is_set():
            self._send_waiting(run)

    def _take_prefix(self, run: _DeliveryRun) -> None:
        run.has_room.set()
        taken = run.window.take_processed()
        if not taken:
            return
        was_answered = False
        for entry in taken:
            run.position = entry.position
            run.processed += 1
            if entry.event is None:
                continue
            if entry.reason is not None:
                self._refuse(run, entry, entry.reason)
            outcome = "skipped" if entry.sent_in_pass == 0 else "delivered"
            outcome = "refused" if entry.reason is not None else outcome
            was_answered |= outcome != "skipped"
            self._counters[outcome].inc()
        run.has_progress.set()
        is_much = run.processed - run.stored > self._settings.uncommitted // 2
        if is_much or (was_answered and self._settings.stores_answers_at_once):
            run.is_urgent.set()

    def _refuse(self, run: _DeliveryRun, entry: WindowEntry, reason: str) -> None:
        if entry.event is None:
            return
        log.warning("event refused", output=self._name, event_id=entry.event.id, reason=reason)
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
                await run.is_answered.wait()
            failures = run.window.failures_of_the_oldest()
            wait_seconds = backoff_seconds(
                failures,
                base_seconds=self._settings.backoff_base_seconds,
                cap_seconds=self._settings.backoff_cap_seconds,
            )
            log.info(
                "send retry scheduled",
                output=self._name,
                in_seconds=wait_seconds,
                failures=failures,
            )
            await self._clock.sleep(wait_seconds)
            await self._output.ready()
            run.window.rewind(attempts=self._settings.attempts)
            run.has_failed.clear()
            self._send_waiting(run)

    # --- the position ---

    async def _store(
        self, run: _DeliveryRun, has_progress: asyncio.Event, *, within: float
    ) -> None:
        """Store the position ``within`` so many seconds of each progress.

        Half of them it waits for more progress, the other half for a commit of another caller.
        """
        while True:
            await has_progress.wait()
            await self._clock.sleep(within / 2)
            has_progress.clear()
            try:
                await self._commit(
                    run,
                    timeout_seconds=self._settings.commit_timeout_seconds,
                    linger_seconds=within / 2,
                )
            except BusUnavailableError as exc:
                log.warning("position not stored", output=self._name, reason=str(exc))
                has_progress.set()
                await self._clock.sleep(self._settings.backoff_base_seconds)

    async def _commit(
        self, run: _DeliveryRun, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        if run.position == run.committed:
            return
        position, processed = run.position, run.processed
        step = Step(consumer=self._name, position=position, dead_letters=tuple(run.letters))
        await self._bus.advance(
            step, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )
        if position > run.committed:  # the other task may have stored a later one meanwhile
            run.committed, run.stored = position, processed
            run.letters = [letter for letter in run.letters if letter.position > position]
            run.has_room.set()
