"""The outputs that deliver events to receivers outside, all handled alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial

import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus, Start
from monitor.config import Configuration
from monitor.model.alerts import AlertingSnapshot, OverwrittenTopics
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.events import Event
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.delivery import DeliveryMetrics
from monitor.outputs.mqtt.output import MqttOutput
from monitor.outputs.mqtt.states import BridgeInfo
from monitor.outputs.replaying import Replays
from monitor.outputs.webhook.output import WebhookOutput
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

AnyOutput = MqttOutput | AlertmanagerOutput | WebhookOutput

# The runs that schedules start.
_SCHEDULED_RUNS = {PipelineKind.FLOW: RunKind.FLOW_RUN, PipelineKind.PLAN: RunKind.PLAN_RUN}


class Outputs:
    """The configured outputs: a broker, Alertmanagers, a webhook; each its own consumer."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        bus: EventBus,
        view: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry,
        info: BridgeInfo,
        alerting: Callable[[], AlertingSnapshot],
    ) -> None:
        """``alerting`` must know the stored alerts before any of the `tasks` runs."""
        metrics = DeliveryMetrics(registry)
        self._bus = bus
        self.mqtt: MqttOutput | None = None
        outputs: list[AnyOutput] = []
        if configuration.mqtt is not None:
            self.mqtt = MqttOutput(
                configuration.mqtt,
                bus=bus,
                view=view,
                clock=clock,
                registry=registry,
                metrics=metrics,
                info=info,
                next_start=partial(next_start, alerting, view, clock),
                alerting=alerting,
            )
            outputs.append(self.mqtt)
        if (settings := configuration.alertmanager) is not None:
            outputs += [
                AlertmanagerOutput(
                    url,
                    settings=settings,
                    bus=bus,
                    clock=clock,
                    metrics=metrics,
                    alerting=alerting,
                )
                for url in settings.urls
            ]
        if (webhook := configuration.webhook) is not None:
            outputs.append(WebhookOutput(webhook, bus=bus, clock=clock, metrics=metrics))
        self._by_name: Mapping[str, AnyOutput] = {output.name: output for output in outputs}
        self.replays = Replays(self._by_name, bus=bus, clock=clock)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the consumers."""
        return tuple(self._by_name)

    @property
    def posting(self) -> tuple[AlertmanagerOutput | WebhookOutput, ...]:
        """The outputs without a connection: only their last request shows their state."""
        return tuple(
            output for output in self._by_name.values() if not isinstance(output, MqttOutput)
        )

    def wants(self) -> dict[str, Callable[[Event], bool]]:
        """Return for each output the test of the events that it delivers."""
        return {name: output.wants for name, output in self._by_name.items()}

    def tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what runs for ever, by the names of the consumers."""
        return {name: output.run for name, output in self._by_name.items()}

    def overwritten(self) -> OverwrittenTopics | None:
        """Return which retained topic of ours somebody overwrites again and again."""
        return None if self.mqtt is None else self.mqtt.foreign_writes.lasting()

    async def subscribe(self) -> None:
        """Let each new output begin at the end of the log; before anything can be appended."""
        for name in self._by_name:
            await self._bus.subscribe(name, start=Start.NEWEST)

    async def drain(self, *, timeout_seconds: float) -> None:
        """Deliver what the log holds now, within this time for all outputs together."""
        async with asyncio.TaskGroup() as group:
            for name, output in self._by_name.items():
                draining = _drain(output, timeout_seconds=timeout_seconds)
                group.create_task(draining, name=f"drain {name}")


def next_start(
    alerting: Callable[[], AlertingSnapshot],
    view: LiveStateView,
    clock: Clock,
    workspace: str,
    pipeline: Pipeline,
) -> datetime | None:
    """Return the start that alerting awaits next, workspace time, as metrics and page show it."""
    status = view.workspace(workspace)
    if status is None:
        return None
    identity = (workspace, _SCHEDULED_RUNS[pipeline.kind], pipeline.id)
    return alerting().expected_start(identity, now=status.time_there(clock.now()))


async def _drain(output: AnyOutput, *, timeout_seconds: float) -> None:
    try:
        is_delivered = await output.drain(timeout_seconds=timeout_seconds)
    except BusError as exc:
        log.warning("backlog cannot be read", output=output.name, reason=str(exc))
        return
    if not is_delivered:
        # The rest is delivered after the next start.
        log.warning("output drained in part", output=output.name)
