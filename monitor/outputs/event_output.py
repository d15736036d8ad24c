"""The base of all outputs: a consumer of the log, delivered to at least once and in order."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus, Recorded, Start
from monitor.model.alerts import AlertingSnapshot, OverwrittenTopics
from monitor.model.checks import CheckLine
from monitor.model.clock import Clock
from monitor.model.errors import OutputError
from monitor.model.events import AlertEvent, Event
from monitor.model.notifying import MessagePreview
from monitor.model.reports import Report
from monitor.outputs.delivery import Delivery, DeliveryMetrics
from monitor.outputs.settings import DeliverySettings, OutputRecord
from monitor.tracking.live_state import LiveStateView

Run = Callable[[], Coroutine[Any, Any, None]]


def give_answer(answer: asyncio.Future[None], failure: OutputError | None) -> None:
    """End the future, unless it has ended or was cancelled."""
    if answer.done():
        return
    if failure is None:
        answer.set_result(None)
    else:
        answer.set_exception(failure)


class DaemonInfo(Struct, frozen=True, kw_only=True):
    """What this daemon says about itself; two configurations never have one ``config_hash``."""

    version: str
    contract_version: str = "1"
    workspaces: tuple[str, ...]
    config_hash: str


class OutputParts(Struct, frozen=True, kw_only=True):
    """What outputs are built from. ``alerting`` is polled and must not wait."""

    bus: EventBus
    view: LiveStateView
    clock: Clock
    registry: CollectorRegistry  # of the outputs of one section; its series end with them
    metrics: DeliveryMetrics
    info: DaemonInfo
    alerting: Callable[[], AlertingSnapshot]  # knows the stored alerts before any output runs
    page_url: str | None = None  # where people find our page, without a slash at its end
    # What a report says that was due: its name, and when. Each call computes it again.
    report: Callable[[str, datetime], Awaitable[Report]]


class EventOutput(ABC):
    """One receiver outside. `run` may be started again after it ended."""

    record: ClassVar[OutputRecord]

    def __init__(self, settings: DeliverySettings, parts: OutputParts) -> None:
        """``settings`` are of this receiver alone."""
        (self.name,) = self.record.names(settings)
        self.types = self.record.types(settings)  # of the events that it takes
        self._bus = parts.bus
        self._clock = parts.clock
        self._delivery = Delivery(
            self, bus=parts.bus, clock=parts.clock, metrics=parts.metrics, settings=settings
        )

    # --- what is asked of its settings ---

    @classmethod
    def configured(cls, settings: Any, parts: OutputParts) -> list[Self]:
        """Return the outputs that settings stand for. Opens nothing."""
        return [cls(own, parts) for own in cls.record.split(settings)]

    @staticmethod
    @abstractmethod
    def path_problems(settings: Any) -> list[str]:
        """Return one sentence ``key: problem`` for all on this machine that keeps it from working.

        Reads files, so it belongs off the event loop; connects to nothing and changes nothing.
        """

    @staticmethod
    @abstractmethod
    async def check(settings: Any, *, clock: Clock) -> Sequence[CheckLine]:
        """Return the lines of ``doctor``: whether the receiver really takes what is sent."""

    # --- its state, for people ---

    @property
    @abstractmethod
    def is_well(self) -> bool:
        """False while the receiver does not do its part."""

    @property
    @abstractmethod
    def status(self) -> str:
        """One sentence for people: whether it works, or why not."""

    def why_not_taken(self, event: Event) -> str | None:  # noqa: ARG002 - a hook
        """Return why an event of its `types` is still nothing for it; None where it takes it."""
        return None

    async def preview(self, event: AlertEvent) -> MessagePreview | None:  # noqa: ARG002 - a hook
        """Return the message that it would send to people about an event; sends nothing.

        None: it sends none to people.
        """
        return None

    def overwritten(self) -> OverwrittenTopics | None:
        """Return our topics that another client overwrites again and again."""
        return None

    # --- its life ---

    async def run(self) -> None:
        """Deliver until cancelled; then store the position."""
        # The position comes first, so that nothing is missed while the receiver is away.
        await self._bus.subscribe(self.name, start=Start.NEWEST)
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, run in {**await self._tasks(), "delivery": self._delivery.run}.items():
                    tasks.create_task(run(), name=f"{self.name}: {name}")
        finally:
            await self._close()

    @abstractmethod
    async def _tasks(self) -> dict[str, Run]:
        """Return what runs beside the delivery, by name, once it is ready to."""

    async def _close(self) -> None:  # noqa: B027 - a hook
        """Release what `run` has opened, once all tasks have ended."""

    async def introduce(self, info: DaemonInfo) -> None:  # noqa: B027 - a hook
        """Publish what the daemon now says about itself, where that is published."""

    async def finish(self, *, timeout_seconds: float) -> None:
        """Send nothing more, and return when all that was sent is answered, or after this time."""
        await self._delivery.finish(timeout_seconds=timeout_seconds)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that the log holds now is acknowledged; False if it took longer."""
        return await self._delivery.drain(timeout_seconds=timeout_seconds)

    # --- what the delivery calls ---

    @abstractmethod
    async def ready(self) -> None:
        """Return when the receiver can be reached; waits as long as that takes."""

    @abstractmethod
    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Send one event; see `Output.send`."""
