"""Keeps the retained topics equal to the live state, whatever the broker remembers.

The store lists every retained topic of ours *before* it is first published, for each broker, so
that one that was published and is no longer needed can be found and deleted there after any crash,
and when a broker is used again. Nothing else is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice

import structlog

from monitor.bus.contract import EventBus, Step
from monitor.model.alerts import Alert, AlertingSnapshot, AlertState
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, OutputRefusedError, OutputUnavailableError
from monitor.model.events import AlertEvent, Event, RunEvent
from monitor.model.slices import in_slices, pieces_of
from monitor.outputs.freshness import UNSEEN_FACTOR
from monitor.outputs.mqtt.broker_connection import JSON, Connection
from monitor.outputs.mqtt.foreign_writes import ForeignWrites
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.states import (
    AnyRetained,
    PipelineIdentity,
    Retained,
    StateSnapshot,
    next_start,
    status_of,
)
from monitor.outputs.mqtt.topics import Topics
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()


_LISTED = b"1"
_AT_ONCE = 8  # few, because the events of a run wait for them at the broker
_LISTED_AT_ONCE = 100  # in one commit
_STORE_SECONDS = 10.0
_WATCH_ATTEMPTS = 3
_ALL = frozenset({"+"})  # workspaces
_STATES_IN_A_SLICE = 10  # of 10,000 pipelines and more; making one takes up to 0.2 ms


class RetainedStates:
    """Publishes states when they change, all of them on every connect, and deletes leftovers."""

    def __init__(
        self,
        *,
        consumer: str,
        bus: EventBus,
        view: LiveStateView,
        topics: Topics,
        connection: Connection,
        clock: Clock,
        settings: MqttSettings,
        alerting: Callable[[], AlertingSnapshot],
        foreign_writes: ForeignWrites,
    ) -> None:
        """``alerting`` must know the stored alerts by the time of `run`.

        The topics of alerts that it does not know then are deleted.
        """
        self._consumer = consumer
        self._bus = bus
        self._view = view
        self._topics = topics
        self._connection = connection
        self._clock = clock
        self._settings = settings
        self._alerting = alerting
        self._foreign_writes = foreign_writes
        self._watch_failures = 0  # in a row
        # Begins the keys of the list in the consumer's state.
        self._key = f"retained:{settings.broker} "
        self._listed: set[str] = set()
        self._published: dict[
            str, tuple[int, float]
        ] = {}  # topic -> essence, and when; on this link
        # Idle pipelines whose topic holds what follows from this, on this link.
        self._bases: dict[PipelineIdentity, tuple[object, ...]] = {}
        self._touched: set[PipelineIdentity] = set()
        self._has_touched_workspaces = False
        # As published on this link: alerts by fingerprint, without pending ones, and why some of
        # them cannot be judged.
        self._snapshot: AlertingSnapshot | None = None
        self._alerts: dict[str, Alert] = {}
        self._unwatched: frozenset[tuple[object, str]] = frozenset()
        self._unjudged: dict[str, str] = {}

    async def open(self) -> None:
        """Read the list of topics and put the bridge's own on it; to be called before connecting.

        Raises:
            BusUnavailableError: the list cannot be read or written.
        """
        state = await self._bus.consumer_state(self._consumer)
        self._listed = {key.removeprefix(self._key) for key in state if key.startswith(self._key)}
        await self._list(self._bridge_topics)

    def touch(self, event: Event) -> None:
        """Compare what the event is about with the next tick."""
        if isinstance(event, AlertEvent):
            return  # alerts are compared with every tick
        if not isinstance(event, RunEvent):
            self._has_touched_workspaces = True
        elif event.run.pipeline is not None:
            key = event.run.key
            self._touched.add((key.workspace, key.kind, event.run.pipeline.id))

    async def run(self) -> None:
        """Keep the retained topics up to date until cancelled."""
        while True:
            link = await self._connection.ready()
            self._forget_published()
            try:
                await self._follow(link)
            except OutputUnavailableError as exc:
                log.info("retained states wait for broker", reason=str(exc))
            except BusUnavailableError as exc:
                log.warning("retained states wait for store", reason=str(exc))
            await self._clock.sleep(self._settings.state_interval_seconds)

    async def _follow(self, link: MqttLink) -> None:
        """Tick until the link is lost. A tick is the least time between two messages of a topic."""
        compared_all_at: float | None = None
        watched = await self._watch(link, before=None)
        lease_seconds = self._bus.lease_seconds
        republished_at = self._clock.monotonic() + lease_seconds if lease_seconds else None
        while link is self._connection.link:
            now = self._clock.monotonic()
            watched = await self._watch(link, before=watched)
            if await self._forget_overwritten():
                compared_all_at = None
            if republished_at is not None and now >= republished_at:
                # A broker may publish the former holder's last words, or its will, only now.
                republished_at = compared_all_at = None
                self._forget_published()
                await self._connection.greet_again()
            await self._publish_alerts(link)
            if (
                compared_all_at is None
                or now - compared_all_at >= self._settings.state_scan_seconds
            ):
                compared_all_at = now
                await self._compare(link, only=None)
            elif self._touched or self._has_touched_workspaces:
                await self._compare(link, only=self._touched)
            await self._clock.sleep(self._settings.state_interval_seconds)

    def _forget_published(self) -> None:
        self._published.clear()
        self._bases.clear()
        self._snapshot, self._alerts, self._unjudged = None, {}, {}

    async def _watch(self, link: MqttLink, *, before: frozenset[str] | None) -> frozenset[str]:
        """Listen for others on our topics, unless this broker ends connections for it.

        Return the workspaces that are listened to; nothing is done where they are those before.
        """
        # The topics of all shards would come to each of them.
        names = [status.workspace for status in self._view.workspaces()]
        workspaces = frozenset(names) if self._bus.shard else _ALL
        if workspaces == before or self._watch_failures >= _WATCH_ATTEMPTS:
            return workspaces
        try:
            await link.watch(self._topics.retained_filters(sorted(workspaces)), self._notice)
        except OutputUnavailableError:
            self._watch_failures += 1
            if self._watch_failures == _WATCH_ATTEMPTS:
                log.warning("own retained topics are not watched: the broker does not answer")
            raise
        self._watch_failures = 0
        return workspaces

    def _notice(self, topic: str) -> None:
        # Other instances have topics below the same prefix.
        if topic in self._published or topic in self._bridge_topics:
            self._foreign_writes.notice(topic)

    @property
    def _bridge_topics(self) -> tuple[str, str]:
        return self._topics.bridge_state, self._topics.bridge_info

    async def _forget_overwritten(self) -> bool:
        """Let what others have overwritten be published again; False where there is none."""
        overwritten = self._foreign_writes.due()
        for topic in overwritten:
            self._published.pop(topic, None)
        if overwritten.intersection(self._bridge_topics):
            await self._connection.greet_again()
        if overwritten:
            self._bases.clear()
            self._snapshot, self._alerts = None, {}
        return bool(overwritten)

    async def _compare(self, link: MqttLink, *, only: Collection[PipelineIdentity] | None) -> None:
        self._touched = set()
        self._has_touched_workspaces = False
        present = await self._gather(only)
        await self._publish(link, self._news(present.workspaces()))
        before, unneeded = self._bases, set[str]()
        if only is None:
            self._bases = {}  # filled again, without the pipelines that are gone
            unneeded = self._listed.difference(self._bridge_topics)
        await self._publish_some_by_some(link, self._changed(present, before, unneeded))
        if only is None:
            await self._delete(link, await self._leftovers(present, unneeded))

    async def _gather(self, only: Collection[PipelineIdentity] | None) -> StateSnapshot:
        stale = timedelta(seconds=self._settings.state_stale_seconds)
        now = self._clock.now()
        present = StateSnapshot(
            self._view,
            self._topics,
            partial(next_start, self._alerting(), self._view, now=now),
            known_since=now - stale,
            seen_since=now - UNSEEN_FACTOR * stale,
            overdue_since=self._clock.monotonic() - self._settings.state_stale_seconds,
            only=only,
        )
        # Both of one moment: a run that ends meanwhile would be in neither.
        all_health, all_active = self._view.pipeline_health(), self._view.active_runs()
        health = pieces_of(all_health)  # of 10,000 pipelines and more
        async for some_health in in_slices(health, size=1):
            present.add_health(some_health)
        active = pieces_of(all_active)  # thousands of runs
        async for some_active in in_slices(active, size=1):
            present.add_active(some_active)
        return present

    def _changed(
        self,
        present: StateSnapshot,
        before: dict[PipelineIdentity, tuple[object, ...]],
        unneeded: set[str],
    ) -> Iterator[AnyRetained | None]:
        """Yield the state of each pipeline; None for one that follows from the same as before.

        Its topic leaves those that seem to be ``unneeded``.
        """
        for identity in present.identities():
            unneeded.discard(self._topics.pipeline_state(*identity))
            basis, known = present.basis(identity), before.pop(identity, None)
            if basis is None or basis != known:
                yield present.pipeline(identity)
            else:
                basis = known
                yield None
            # Kept after the yield, so its state was published or is about to be.
            if basis is not None:
                self._bases[identity] = basis

    async def _publish_some_by_some(
        self, link: MqttLink, states: Iterable[AnyRetained | None]
    ) -> None:
        """Publish those that are news, few at a time."""
        news: list[tuple[AnyRetained, int]] = []
        async for state in in_slices(states, size=_STATES_IN_A_SLICE):
            news += self._news(() if state is None else (state,))
            if len(news) == _LISTED_AT_ONCE:
                await self._publish_listed(link, news)
                news = []
        await self._publish_listed(link, news)

    async def _publish_listed(self, link: MqttLink, news: list[tuple[AnyRetained, int]]) -> None:
        await self._list([state.topic for state, _ in news])
        for few in pieces_of(news, size=_AT_ONCE):
            await self._publish(link, few)

    async def _publish_alerts(self, link: MqttLink) -> None:
        """Publish the alerts that changed, or that can be judged no longer, or again."""
        snapshot = self._alerting()
        unwatched = self._view.unseen()
        if snapshot is self._snapshot and unwatched == self._unwatched:
            return
        alerts: dict[str, Alert] = {}
        unjudged: dict[str, str] = {}
        changed: list[Alert] = []
        now = self._clock.now()
        async for alert in in_slices(snapshot.alerts):  # thousands in an outage
            if alert.state is AlertState.PENDING:
                continue
            key = alert.fingerprint
            alerts[key] = alert
            # The view is asked about an alert only while something alerts rest on is unwatched.
            why = self._view.why_unjudged(alert) if unwatched else None
            if why is not None:
                unjudged[key] = why
            # An alert that did not change is the same object in each snapshot.
            if self._alerts.get(key) is not alert or self._unjudged.get(key) != why:
                changed.append(alert)
        states = (
            Retained(
                self._topics.alert_state(alert),
                status_of(alert, now, unjudged=unjudged.get(alert.fingerprint)),
                is_alive=False,
            )
            for alert in changed
        )
        await self._publish_some_by_some(link, states)
        self._snapshot, self._unwatched = snapshot, unwatched
        self._alerts, self._unjudged = alerts, unjudged

    def _news(self, states: Iterable[AnyRetained]) -> list[tuple[AnyRetained, int]]:
        now = self._clock.monotonic()
        news: list[tuple[AnyRetained, int]] = []
        for state in states:
            essence = state.essence()
            published = self._published.get(state.topic)
            if published is not None and published[0] == essence:
                age_seconds = now - published[1]
                if not state.is_alive or age_seconds < self._settings.state_refresh_seconds:
                    continue
            news.append((state, essence))
        return news

    async def _publish(self, link: MqttLink, news: Sequence[tuple[AnyRetained, int]]) -> None:
        if not news:
            return
        await self._list([state.topic for state, _ in news])
        now = self._clock.monotonic()
        answers = [link.send(_message(state.topic, state.payload())) for state, _ in news]
        taken = await _taken([state.topic for state, _ in news], answers)
        for state, essence in news:
            # A refused one is marked too: it is tried again when it changes, not every second.
            self._published[state.topic] = (essence, now)
        if len(taken) < len(news):
            log.warning("retained states refused", count=len(news) - len(taken))

    async def _leftovers(self, present: StateSnapshot, unneeded: set[str]) -> list[str]:
        """Return those of the topics that nothing present needs either."""
        configured = {state.state.workspace: state.topic for state in present.workspaces()}
        unneeded.difference_update(configured.values())
        async for alert in in_slices(self._alerts.values()):  # thousands in an outage
            unneeded.discard(self._topics.alert_state(alert))
        leftovers: list[str] = []
        async for topic in in_slices(unneeded):  # up to one of each pipeline
            workspace = self._topics.workspace_of(topic)
            # Until a workspace has answered, what is not known of it may still be there; alerts
            # are known from the start.
            is_known = workspace not in configured or present.is_confirmed(workspace)
            if is_known or self._topics.is_alert(topic):
                leftovers.append(topic)
        return leftovers

    async def _delete(self, link: MqttLink, topics: list[str]) -> None:
        remaining = iter(topics)
        while some := list(islice(remaining, _AT_ONCE)):
            gone = await _taken(some, [link.send(_message(topic, b"")) for topic in some])
            await self._store(dict.fromkeys((self._key + topic for topic in gone), None))
            self._listed.difference_update(gone)
            for topic in gone:
                self._published.pop(topic, None)
            log.info("retained leftovers deleted", count=len(gone), refused=len(some) - len(gone))

    async def _list(self, topics: Iterable[str]) -> None:
        new = [topic for topic in topics if topic not in self._listed]
        if new:
            await self._store({self._key + topic: _LISTED for topic in new})
            self._listed.update(new)

    async def _store(self, state: dict[str, bytes | None]) -> None:
        step = Step(consumer=self._consumer, state=state)
        await self._bus.advance(step, timeout_seconds=_STORE_SECONDS)


def _message(topic: str, payload: bytes) -> OutgoingMessage:
    return OutgoingMessage(topic=topic, payload=payload, retain=True, content_type=JSON)


async def _taken(topics: list[str], answers: list[asyncio.Future[None]]) -> list[str]:
    """Wait for all answers and return the topics that the broker took.

    Raises:
        OutputUnavailableError: the link was lost, or the broker cannot take them now.
    """
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, OutputRefusedError):
            raise outcome
    return [topic for topic, outcome in zip(topics, outcomes, strict=True) if outcome is None]
