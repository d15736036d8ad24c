"""Stays connected to the broker: reconnects with growing waits, publishes its state each time.

The task ``mqtt: stay connected`` owns the link, ``reason``, ``hint`` and ``since``; all others only
read them and send on the link. When the link ends, every message on it ends with an error, and each
sender decides for itself whether to send again.

Two daemons with one ``[mqtt] instance`` take the session from each other without end. A broker that
speaks MQTT 5 may say so; many only close the connection: `ReconnectBackoff` finds that out.
"""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from random import Random

import structlog
from aiomqtt.client import ProtocolVersion
from prometheus_client import CollectorRegistry, Gauge

from monitor.bus.contract import EventBus
from monitor.model.clock import Clock
from monitor.model.errors import (
    BusUnavailableError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.waits import backoff_seconds
from monitor.outputs.event_output import DaemonInfo
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage, VersionRefusedError
from monitor.outputs.mqtt.link_ends import LinkEnd, LinkEndKind
from monitor.outputs.mqtt.link_opening import VERSIONS, open_link
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.states import BridgeState, BridgeWord, encode
from monitor.outputs.mqtt.topics import Topics

log = structlog.get_logger()

JSON = "application/json"
# A daemon that seems to fight for its session waits at most so many times the usual cap.
FIGHT_CAP_FACTOR = 10

_SUSPICIOUS_CLOSURES = 3  # in a row: a broker that restarts closes fewer
_LEAST_JITTER = 0.5
_KEEP_ALIVE_SECONDS = 1.0


class ReconnectBackoff:
    """Counts failed connections in a row; a link that lasted resets the counts."""

    def __init__(
        self,
        *,
        instance: str,
        base_seconds: float,
        cap_seconds: float,
        jitter: Random,
        is_shard: bool = False,
    ) -> None:
        """``is_shard``: other sessions of ours at the broker differ in their client ids alone."""
        self._instance = instance
        self._is_shard = is_shard
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._jitter = jitter
        self._attempts = 0
        self._takeovers = 0
        self._closures = 0
        self._seconds = base_seconds

    @property
    def hint(self) -> str | None:
        """What to change where another client seems to use our client id; None otherwise."""
        change = "give each daemon on this broker its own [mqtt] instance"
        if self._is_shard:
            change = (
                "give each cluster on this broker its own [mqtt] instance, and let the broker keep "
                "client ids: in mosquitto, on a listener without use_username_as_clientid"
            )
        if self._takeovers:
            times = "once" if self._takeovers == 1 else f"{self._takeovers} times"
            return (
                f"another client connected as {self._instance!r} and took over the session "
                f"{times}; {change}"
            )
        if self._closures >= _SUSPICIOUS_CLOSURES:
            return (
                f"the broker closed {self._closures} connections in a row soon after it accepted "
                f"them; if another client connects as {self._instance!r}, {change}"
            )
        return None

    def record_failure(self) -> None:
        """Count an attempt that led to no connection."""
        self._attempts += 1
        self._seconds = self._doubled(self._attempts, self._cap_seconds)

    def record_end(self, end: LinkEnd, *, held_seconds: float) -> None:
        """Count the end of a connection that the broker had accepted."""
        if held_seconds > self._cap_seconds * (FIGHT_CAP_FACTOR if self._fights else 1):
            self._attempts = self._takeovers = self._closures = 0
        self._attempts += 1
        self._takeovers += end.kind is LinkEndKind.TAKEN_OVER
        self._closures = self._closures + 1 if end.kind is LinkEndKind.CLOSED_BY_PEER else 0
        if self._fights:
            self._seconds = self._doubled(self._fights, self._cap_seconds * FIGHT_CAP_FACTOR)
        else:
            self._seconds = self._doubled(self._attempts, self._cap_seconds)

    def wait_seconds(self) -> float:
        """Return the wait before the next attempt; up to half of it is taken off by chance.

        Many daemons do not connect to a returning broker at once then, and two that fight for one
        session do not stay in step.
        """
        return self._seconds * self._jitter.uniform(_LEAST_JITTER, 1.0)

    @property
    def _fights(self) -> int:
        """How often another client seems to have taken the session."""
        is_suspicious = self._closures >= _SUSPICIOUS_CLOSURES
        return max(self._takeovers, self._closures if is_suspicious else 0)

    def _doubled(self, times: int, cap_seconds: float) -> float:
        return backoff_seconds(times, base_seconds=self._base_seconds, cap_seconds=cap_seconds)


class Connection:
    """The present link, or why there is none."""

    def __init__(
        self,
        settings: MqttSettings,
        *,
        bus: EventBus,
        topics: Topics,
        info: DaemonInfo,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._bus = bus
        self._topics = topics
        self._info = info
        self._clock = clock
        self._versions = VERSIONS[settings.protocol]
        self._opened: MqttLink | None = None  # accepted by the broker, perhaps not yet greeted
        self.link: MqttLink | None = None  # that messages may be sent on now
        self._is_ready = asyncio.Event()
        self._backoff = ReconnectBackoff(
            instance=settings.instance,
            base_seconds=settings.reconnect_base_seconds,
            cap_seconds=settings.reconnect_cap_seconds,
            jitter=random.SystemRandom(),
            is_shard=bool(bus.shard),
        )
        self.since: datetime | None = None  # of the present state, connected or not
        self.reason = "not connected yet"  # why there is no link
        self.hint: str | None = None  # what to change where connections keep ending
        self._connected = Gauge(
            "dataprep_monitor_mqtt_connected",
            "1 while the broker has accepted the connection and acknowledged the greeting.",
            ["broker"],
            registry=registry,
        ).labels(str(settings.broker))

    async def ready(self) -> MqttLink:
        """Wait for a link on which the greeting has been acknowledged.

        A cancelled call leaves nothing behind.
        """
        while self.link is None:
            await self._is_ready.wait()
        return self.link

    async def introduce(self, info: DaemonInfo) -> None:
        """Publish this info from now on; without a link, with the next one."""
        self._info = info
        if self.link is None:
            return
        try:
            await self.link.send(self._bridge_info())
        except OutputError as exc:
            log.info("bridge info not published", reason=str(exc))

    async def greet_again(self) -> None:
        """Publish the bridge's own topics once more, after another client has overwritten them."""
        if self.link is not None:
            await self._greet(self.link)

    async def run(self) -> None:
        """Stay connected until cancelled, then say goodbye."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stay_connected(), name="mqtt: stay connected")
            tasks.create_task(self._keep_alive(), name="mqtt: keep alive")

    async def _keep_alive(self) -> None:
        while True:
            await self._clock.sleep(_KEEP_ALIVE_SECONDS)
            if self._opened is not None:
                self._opened.keep_alive()

    async def _stay_connected(self) -> None:
        broker = str(self._settings.broker)
        while True:
            began = self._clock.monotonic()
            try:
                end = await self._use(await self._open())
            except (OutputUnavailableError, BusUnavailableError) as exc:
                self._backoff.record_failure()
                self.reason = str(exc)
            else:
                held_seconds = self._clock.monotonic() - began
                self._backoff.record_end(end, held_seconds=held_seconds)
                self.reason = end.reason
            self.hint = self._backoff.hint
            if self.hint is not None:
                self.reason = f"{self.reason}: {self.hint}"
            wait_seconds = self._backoff.wait_seconds()
            log.warning(
                "no connection to the broker",
                broker=broker,
                reason=self.reason,
                retry_in_seconds=round(wait_seconds, 1),
            )
            await self._clock.sleep(wait_seconds)

    async def _open(self) -> MqttLink:
        """Return a link in the first version of MQTT that the broker speaks.

        Raises:
            OutputUnavailableError: no connection in time, or it was refused.
            BusUnavailableError: the shard may be another daemon's, whose session this would end.
        """
        await self._bus.confirm()
        return await open_link(
            self._settings,
            versions=self._versions,
            clock=self._clock,
            will=self._bridge_state("offline"),
            may_send=self._bus.may_publish,
            on_refused=self._remember_version,
        )

    def _remember_version(self, version: ProtocolVersion, refusal: VersionRefusedError) -> None:
        # A broker that merely hung up may have been about to stop, so version 5 is tried again.
        every = VERSIONS[self._settings.protocol]
        if version is ProtocolVersion.V5 and refusal.is_certain and len(every) > 1:
            log.info("the broker does not speak MQTT 5; using 3.1.1")
            self._versions = (ProtocolVersion.V311,)
        else:
            self._versions = every

    async def _use(self, link: MqttLink) -> LinkEnd:
        """Greet, offer the link to all, and return how it ended."""
        self._opened = link
        try:
            await self._greet(link)
            self._set_link(link, reason="")
            log.info("broker connected", mqtt_version=5 if link.is_version_5 else "3.1.1")
            # Shielded: a cancelled call must still be able to say goodbye on this link.
            return await asyncio.shield(link.lost)
        except asyncio.CancelledError:
            await self._say_goodbye(link)
            raise
        finally:
            link.abort("given up")
            self._opened = None
            self._set_link(None, reason=self.reason)

    async def _greet(self, link: MqttLink) -> None:
        greeting = [link.send(self._bridge_state("online")), link.send(self._bridge_info())]
        for failure in await asyncio.gather(*greeting, return_exceptions=True):
            if isinstance(failure, OutputRefusedError):
                # A client that may not publish its state may still be allowed to publish events.
                log.warning("bridge state refused", reason=str(failure))
            elif failure is not None:
                raise failure

    async def _say_goodbye(self, link: MqttLink) -> None:
        if not self._bus.may_publish():
            return
        try:
            async with asyncio.timeout(self._settings.stop_timeout_seconds):
                await link.send(self._bridge_state("stopped"))
                await link.close()
        except (OutputError, TimeoutError) as exc:
            log.warning("bridge state stopped not published", reason=str(exc))

    def _bridge_state(self, state: BridgeWord) -> OutgoingMessage:
        return OutgoingMessage(
            topic=self._topics.bridge_state,
            payload=encode(BridgeState(state)),
            retain=True,
            content_type=JSON,
        )

    def _bridge_info(self) -> OutgoingMessage:
        return OutgoingMessage(
            topic=self._topics.bridge_info,
            payload=encode(self._info),
            retain=True,
            content_type=JSON,
        )

    def _set_link(self, link: MqttLink | None, *, reason: str) -> None:
        self.link = link
        self.reason = reason
        self.since = self._clock.now()
        self._connected.set(0 if link is None else 1)
        if link is None:
            self._is_ready.clear()
        else:
            self._is_ready.set()
