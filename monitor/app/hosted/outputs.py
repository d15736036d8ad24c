"""The outputs that deliver events to receivers outside, all handled alike.

Settings come by section. A section whose settings change gets new outputs: `prepare` does all that
can be refused, `swap` ends the former ones and starts the new ones from the same positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.alerting.explain.notification_reader import BEGAN_AT
from monitor.app.tasks import DaemonTasks
from monitor.bus.contract import EventBus, Start, Step
from monitor.config import Problem, files_of
from monitor.config.problems import shown
from monitor.model.alerts import Alert, AlertingSnapshot, OverwrittenTopics
from monitor.model.checks import CheckLine, failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.events import Event
from monitor.model.notifying import MessagePreview, OutputTypes, event_now, why_no_event
from monitor.model.registries import PartRegistry
from monitor.model.reports import Report
from monitor.outputs.dead_letters import DeadLetters
from monitor.outputs.delivery import DeliveryMetrics
from monitor.outputs.event_output import DaemonInfo, EventOutput, OutputParts
from monitor.outputs.records import RECORDS
from monitor.outputs.replaying import Replays
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

_SUBSCRIBE_SECONDS = 10.0
_FINISH_SECONDS = 10.0  # for what was sent before the settings changed


class _Section(Struct, frozen=True, kw_only=True):
    """The outputs of one section, and the registry of their own series."""

    settings: Struct
    outputs: tuple[EventOutput, ...]
    registry: CollectorRegistry


class OutputChange(Struct, frozen=True, kw_only=True):
    """What other settings change about the outputs. ``built`` do not run yet."""

    built: Mapping[str, _Section]  # by section: new ones, and those whose settings changed
    replaced: tuple[str, ...]  # sections whose outputs end
    names: tuple[str, ...]  # of all its outputs


class Outputs:
    """The configured outputs, by name; each its own consumer."""

    def __init__(
        self,
        settings: Mapping[str, Struct],
        *,
        bus: EventBus,
        view: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry,
        info: DaemonInfo,
        alerting: Callable[[], AlertingSnapshot],
        page_url: str | None,
        report: Callable[[str, datetime], Awaitable[Report]],
    ) -> None:
        """``alerting`` must know the stored alerts before any of the `tasks` runs."""
        self._parts = OutputParts(
            bus=bus,
            view=view,
            clock=clock,
            registry=registry,
            metrics=DeliveryMetrics.of(registry),
            info=info,
            alerting=alerting,
            page_url=page_url,
            report=report,
        )
        self.info = info  # of the configuration in force
        self._sections: dict[str, _Section] = {}
        self._by_name: dict[str, EventOutput] = {}
        self.replays = Replays(self._by_name, bus=bus, clock=clock)
        self.dead_letters = DeadLetters(self._by_name, bus=bus, clock=clock)
        for name, section in self.plan(settings, info=info).built.items():
            self._add(name, section)

    @property
    def by_name(self) -> Mapping[str, EventOutput]:
        """The outputs of now, by the names of their consumers."""
        return self._by_name

    def types(self) -> OutputTypes:
        """Return for each output the types of the events that it delivers."""
        return {name: output.types for name, output in self._by_name.items()}

    def why_not_taken(self, name: str, event: Event) -> str | None:
        """Return why an event of its types is nothing for the output of that name."""
        output = self._by_name.get(name)
        return None if output is None else output.why_not_taken(event)

    async def previews(self, alert: Alert) -> list[MessagePreview]:
        """Return of each channel to people what it would send about an alert now, or why not."""
        event = event_now(alert, self._parts.clock.now())
        found = [await output.preview(event) for output in [*self._by_name.values()]]
        previews = [preview for preview in found if preview is not None]
        if (why_not := why_no_event(alert)) is not None:
            return [MessagePreview(channel=each.channel, why_not=why_not) for each in previews]
        return previews

    def check_lines(self) -> list[CheckLine]:
        """Return for each output whether it does its part, or why not."""
        return [
            (ok if output.is_well else failed)(name, output.status)
            for name, output in self._by_name.items()
        ]

    def tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks, by the names of the consumers."""
        return {name: output.run for name, output in self._by_name.items()}

    def overwritten(self) -> OverwrittenTopics | None:
        """Return our topics that another client overwrites again and again."""
        found = (output.overwritten() for output in self._by_name.values())
        return next((overwritten for overwritten in found if overwritten is not None), None)

    async def introduce(self, info: DaemonInfo) -> None:
        """Publish what the daemon now says about itself; each output deals with failures."""
        self.info = info
        for output in self._by_name.values():
            await output.introduce(info)

    async def subscribe(self, outputs: Iterable[EventOutput] | None = None) -> None:
        """Let each new output begin at the end of the log; before anything can be appended."""
        bus = self._parts.bus
        known = {consumer.consumer for consumer in (await bus.status()).consumers}
        for output in self._by_name.values() if outputs is None else outputs:
            await bus.subscribe(output.name, start=Start.NEWEST)
            if output.name not in known:
                # Older events are before its position too, though it has never delivered them.
                began = msgspec.json.encode(self._parts.clock.now())
                step = Step(consumer=output.name, state={BEGAN_AT: began})
                await bus.advance(step, timeout_seconds=_SUBSCRIBE_SECONDS)

    async def drain(self, *, timeout_seconds: float) -> None:
        """Deliver what the log holds now, within this time for all outputs together."""
        async with asyncio.TaskGroup() as group:
            for name, output in self._by_name.items():
                draining = output.drain(timeout_seconds=timeout_seconds)
                group.create_task(draining, name=f"drain {name}")

    # --- other settings ---

    def plan(
        self,
        settings: Mapping[str, Struct],
        *,
        info: DaemonInfo,
        renewed: Collection[str] = frozenset(),
    ) -> OutputChange:
        """Return what these settings change, with the new outputs built.

        ``renewed`` are files that now hold something else; an output reads its own only once.
        """
        parts = msgspec.structs.replace(self._parts, info=info)
        kept = {
            name: section
            for name, section in self._sections.items()
            if settings.get(name) == section.settings
            and not any(path in renewed for path in files_of(section.settings))
        }
        built = {
            record.section: _built(record.load(), settings[record.section], parts)
            for record in RECORDS
            if record.section in settings and record.section not in kept
        }
        return OutputChange(
            built=built,
            replaced=tuple(name for name in self._sections if name not in kept),
            names=tuple(
                output.name for section in {**kept, **built}.values() for output in section.outputs
            ),
        )

    async def prepare(self, change: OutputChange) -> None:
        """Do all of a change that can be refused. The former outputs still run.

        Raises:
            ConfigurationError: a new output cannot work on this machine.
            BusError: the store refused a consumer.
        """
        settings = {name: section.settings for name, section in change.built.items()}
        if problems := await asyncio.to_thread(find_path_problems, settings):
            raise ConfigurationError([str(problem) for problem in problems])
        for section in change.built.values():
            await self.subscribe(section.outputs)

    async def swap(self, change: OutputChange, tasks: DaemonTasks) -> None:
        """End the replaced outputs once what they sent is answered, and start the new ones."""
        async with asyncio.TaskGroup() as group:
            for name in {*change.replaced, *change.built}:
                # Each by itself: none waits for a receiver of another.
                swapping = self._swap_section(name, change.built.get(name), tasks)
                group.create_task(swapping, name=f"swap {name}")

    async def _swap_section(self, name: str, section: _Section | None, tasks: DaemonTasks) -> None:
        if name in self._sections:
            await self._stop(name, tasks)
        if section is not None:
            self._add(name, section)
            tasks.start_all({output.name: output.run for output in section.outputs})

    def _add(self, name: str, section: _Section) -> None:
        self._sections[name] = section
        self._by_name.update((output.name, output) for output in section.outputs)
        self._parts.registry.register(section.registry)

    async def _stop(self, name: str, tasks: DaemonTasks) -> None:
        section = self._sections.pop(name)
        for output in section.outputs:
            del self._by_name[output.name]
        async with asyncio.TaskGroup() as group:
            for output in section.outputs:
                finishing = output.finish(timeout_seconds=_FINISH_SECONDS)
                group.create_task(finishing, name=f"finish {output.name}")
        await tasks.cancel([output.name for output in section.outputs])
        self._parts.registry.unregister(section.registry)


def find_path_problems(settings: Mapping[str, Struct]) -> list[Problem]:
    """Return what on this machine keeps outputs from working. Reads files; connects to nothing."""
    return [
        Problem(key=f"{path}.{key}", value=shown(getattr(table, key)), hint=hint)
        for record in RECORDS
        if record.section in settings
        for path, table in record.tables(settings[record.section])
        for key, _, hint in (text.partition(": ") for text in record.load().path_problems(table))
    ]


def _built(output: type[EventOutput], settings: Struct, parts: OutputParts) -> _Section:
    registry = PartRegistry(parts.registry)
    outputs = output.configured(settings, msgspec.structs.replace(parts, registry=registry))
    return _Section(settings=settings, outputs=tuple(outputs), registry=registry)
