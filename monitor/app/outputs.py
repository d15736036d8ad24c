"""The outputs that carry events to receivers outside, all handled alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from prometheus_client import CollectorRegistry

from monitor.app.expected import ExpectedStarts
from monitor.bus.contract import EventBus, Start
from monitor.config import Configuration
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.events import Event
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.delivery import DeliveryMetrics
from monitor.outputs.mqtt.output import MqttOutput
from monitor.outputs.mqtt.states import BridgeInfo
from monitor.outputs.replaying import Replays
from monitor.outputs.webhook.output import WebhookOutput
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

AnyOutput = MqttOutput | AlertmanagerOutput | WebhookOutput


class Outputs:
    """What the configuration names: a broker, Alertmanagers, a webhook; each its own consumer."""

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
        found: list[AnyOutput] = []
        if configuration.mqtt is not None:
            self.mqtt = MqttOutput(
                configuration.mqtt,
                bus=bus,
                view=view,
                clock=clock,
                registry=registry,
                metrics=metrics,
                info=info,
                next_start=ExpectedStarts(view, clock=clock).next_start,
                alerting=alerting,
            )
            found.append(self.mqtt)
        if (settings := configuration.alertmanager) is not None:
            found += [
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
            found.append(WebhookOutput(webhook, bus=bus, clock=clock, metrics=metrics))
        self._by_name: Mapping[str, AnyOutput] = {
            any_output.name: any_output for any_output in found
        }
        self.replays = Replays(self._by_name, bus=bus, clock=clock)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the consumers."""
        return tuple(self._by_name)

    @property
    def posting(self) -> tuple[AlertmanagerOutput | WebhookOutput, ...]:
        """Those that keep no connection, so that only their last request says how they are."""
        return tuple(item for item in self._by_name.values() if not isinstance(item, MqttOutput))

    def wants(self) -> dict[str, Callable[[Event], bool]]:
        """Return for each output how it tells which events it hands on."""
        return {name: item.wants for name, item in self._by_name.items()}

    def tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what runs for ever, by the names of the consumers."""
        return {name: active.run for name, active in self._by_name.items()}

    async def subscribe(self) -> None:
        """Let each new output begin at the end of the log; before anything can be appended."""
        for name in self._by_name:
            await self._bus.subscribe(name, start=Start.NEWEST)

    async def drain(self, *, timeout_seconds: float) -> None:
        """Let out what the log holds now, in so much time for all of them together."""
        outputs = self._by_name.values()
        await asyncio.gather(
            *(_drain(output, timeout_seconds=timeout_seconds) for output in outputs)
        )


async def _drain(output: AnyOutput, *, timeout_seconds: float) -> None:
    try:
        is_delivered = await output.drain(timeout_seconds=timeout_seconds)
    except BusError as exc:
        log.warning("what is left cannot be read", output=output.name, reason=str(exc))
        return
    if not is_delivered:
        log.warning(
            "an output is behind; the rest is delivered after the next start", output=output.name
        )
