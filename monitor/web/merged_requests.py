"""The requests of all shards as one: routed to the shard that is asked for, or to each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar

import msgspec

from monitor.alerting.alerts.silences import Labels
from monitor.alerting.engine.committed_state import place_of
from monitor.alerting.explain.explanation import Explanation
from monitor.alerting.reports.merging import merged_report
from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.actions import Action, ActionResult
from monitor.model.alerts import (
    Alert,
    AlertingSnapshot,
    AlertState,
    AppliedRule,
    PastQuery,
    Silence,
)
from monitor.model.days_off import DaysOff
from monitor.model.errors import ConfigurationError
from monitor.model.notifying import MessagePreview, NotificationStatus, OutputTypes
from monitor.model.public_shapes import filled
from monitor.model.reports import Report, summary_of
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.model.suggestions import did_you_mean
from monitor.model.words import listed
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.web.http.request_parsing import SHOWN
from monitor.web.requests import AlertingRequests, Requests
from monitor.web.shown_shards import ShardDirectory, ShownShard

T = TypeVar("T")
_NAMED = 10  # workspaces in a sentence


def merged_requests(shards: ShardDirectory) -> Requests:
    """Return the requests of workspaces, each routed to the shard of the one it names."""

    def named(workspace: str | None) -> tuple[ShownShard, str]:
        names = [status.workspace for shard in shards.all() for status in shard.live.workspaces()]
        if workspace is None and len(names) == 1:
            workspace = names[0]
        if workspace is None:
            some = listed(names, most=_NAMED)
            raise ConfigurationError(f"workspace is not named; it is one of {some}")
        shard = shards.of(workspace)
        if shard is None:
            known = f"; known: {listed(names, most=_NAMED)}"
            hint = did_you_mean(workspace[:SHOWN], names) or known
            raise ConfigurationError(f"workspace {workspace[:SHOWN]!r} is not configured{hint}")
        return shard, workspace

    async def track(workspace: str | None, kind: RunKind, run_id: str) -> str:
        shard, name = named(workspace)
        return await shard.requests.track(name, kind, run_id)

    async def untrack(workspace: str | None, kind: RunKind, run_id: str) -> str:
        shard, name = named(workspace)
        return await shard.requests.untrack(name, kind, run_id)

    async def webhooks(
        workspace: str | None, action: str, flow: str | None
    ) -> list[dict[str, Any]]:
        shard, name = named(workspace)
        return await shard.requests.webhooks(name, action, flow)

    async def act(workspace: str | None, action: Action, not_after: datetime) -> ActionResult:
        shard, name = named(workspace)
        return await shard.requests.act(name, action, not_after)

    return Requests(track=track, untrack=untrack, webhooks=webhooks, act=act)


def merged_alerting(shards: ShardDirectory) -> AlertingRequests:
    """Return the requests of alerting and outputs over several shards."""
    return filled(AlertingRequests, _MergedAlerting(shards))


class _MergedAlerting:
    def __init__(self, shards: ShardDirectory) -> None:
        self._shards = shards
        self._made_of: list[AlertingSnapshot] = []
        self._snapshot = AlertingSnapshot()

    def snapshot(self) -> AlertingSnapshot:
        """Return the same snapshot until one of a shard changes."""
        snapshots = [shard.alerting.snapshot() for shard in self._shards.all()]
        if len(snapshots) != len(self._made_of) or any(
            new is not known for new, known in zip(snapshots, self._made_of, strict=True)
        ):
            self._made_of, self._snapshot = snapshots, merged_snapshot(snapshots)
        return self._snapshot

    def ended(self, fingerprint: str) -> Sequence[Alert]:
        found = chain.from_iterable(
            shard.alerting.ended(fingerprint) for shard in self._shards.all()
        )
        return sorted(found, key=_starts_at)

    def labels(self) -> Labels:
        merged: dict[str, dict[str, None]] = {}
        free: set[str] = set()  # labels of any text
        for shard in self._shards.all():
            for label, values in shard.alerting.labels().items():
                merged.setdefault(label, {}).update(dict.fromkeys(values))
                if not values:
                    free.add(label)
        return {label: () if label in free else tuple(values) for label, values in merged.items()}

    async def add_silence(self, silence: Silence) -> None:
        await self._of_each(lambda shard: shard.alerting.add_silence(silence))

    async def expire_silence(self, silence_id: str) -> bool:
        return any(await self._of_each(lambda shard: shard.alerting.expire_silence(silence_id)))

    async def past(self, query: PastQuery) -> Sequence[Alert]:
        shards = self._shards.all()
        if query.workspace is not None:
            shards = [shard for shard in shards if shard.live.workspace(query.workspace)] or shards
        found = [alert for shard in shards for alert in await shard.alerting.past(query)]
        return sorted(found, key=place_of, reverse=True)[: query.limit]

    def rules_for(self, workspace: str, pipeline: Pipeline) -> Sequence[AppliedRule]:
        shard = self._shards.of(workspace)
        return () if shard is None else shard.alerting.rules_for(workspace, pipeline)

    def starts_days_off(self, workspace: str, pipeline: Pipeline) -> Sequence[DaysOff]:
        shard = self._shards.of(workspace)
        return () if shard is None else shard.alerting.starts_days_off(workspace, pipeline)

    async def acknowledge(
        self,
        fingerprint: str,
        starts_at: datetime,
        author: str,
        comment: str,
        until: datetime | None,
    ) -> bool:
        answers = await self._of_each(
            lambda shard: shard.alerting.acknowledge(
                fingerprint, starts_at, author, comment, until
            ),
            of=[
                shard
                for shard in self._shards.all()
                if _knows(shard.alerting.snapshot(), fingerprint)
            ],
        )
        return any(answers)

    def would_mute(self, matchers: tuple[str, ...]) -> Sequence[Alert]:
        return [
            alert for shard in self._shards.all() for alert in shard.alerting.would_mute(matchers)
        ]

    async def explain_alert(self, fingerprint: str) -> Explanation | None:
        shards = self._shards.all()
        knowing = [s for s in shards if _knows(s.alerting.snapshot(), fingerprint)]
        for shard in [*knowing, *shards]:
            found = await shard.alerting.explain_alert(fingerprint)
            if found is not None:
                return found
        return None

    async def preview(self, fingerprint: str) -> Sequence[MessagePreview] | None:
        for shard in self._shards.all():
            alerting = shard.alerting
            if _knows(alerting.snapshot(), fingerprint) or alerting.ended(fingerprint):
                return await alerting.preview(fingerprint)
        return None

    async def explain_run(self, key: RunKey) -> Explanation | None:
        shard = self._shards.of(key.workspace)
        return None if shard is None else await shard.alerting.explain_run(key)

    async def explain_pipeline(
        self, workspace: str, kind: PipelineKind, key: str
    ) -> Explanation | None:
        shard = self._shards.of(workspace)
        if shard is None:
            return None
        return await shard.alerting.explain_pipeline(workspace, kind, key)

    def outputs(self) -> OutputTypes:
        return _united(shard.alerting.outputs() for shard in self._shards.all())

    def unnotified(self) -> str | None:
        whys = (shard.alerting.unnotified() for shard in self._shards.all())
        return next((why for why in whys if why is not None), None)

    async def notifications(self, alerts: Sequence[Alert]) -> Sequence[NotificationStatus]:
        """Ask the shard of each alert; of one about the daemon the first that knows it."""
        of_shards: dict[str, list[Alert]] = {}
        for alert in alerts:
            shard = self._shards.of(alert.workspace) or self._knowing(alert)
            of_shards.setdefault("" if shard is None else shard.name, []).append(alert)
        found: dict[tuple[str, datetime], NotificationStatus] = {}
        for shard in self._shards.all():
            own = of_shards.get(shard.name, [])
            answers = await shard.alerting.notifications(own) if own else ()
            for alert, answer in zip(own, answers, strict=True):
                found[alert.fingerprint, alert.starts_at] = answer
        nothing = NotificationStatus()
        return [found.get((alert.fingerprint, alert.starts_at), nothing) for alert in alerts]

    def _knowing(self, alert: Alert) -> ShownShard | None:
        shards = self._shards.all()
        knowing = (s for s in shards if _knows(s.alerting.snapshot(), alert.fingerprint))
        return next(knowing, None)

    async def replay(self, output: str, since: datetime) -> Replayed:
        shards = [shard for shard in self._shards.all() if output in shard.alerting.outputs()]
        if not shards:
            raise KeyError(output)
        replayed = await self._of_each(
            lambda shard: shard.alerting.replay(output, since), of=shards
        )
        if len(replayed) == 1:
            return replayed[0]
        reasons = dict.fromkeys(each.reason for each in replayed if each.reason is not None)
        return Replayed(
            output=output,
            sent=sum(each.sent for each in replayed),
            skipped=sum(each.skipped for each in replayed),
            refused=sum(each.refused for each in replayed),
            reason="; ".join(reasons) or None,
        )

    async def report(self, query: ReportQuery) -> Report:
        """Return one report of all shards; what of a mirrored one is old is said in it."""
        shards = self._shards.all()
        parts = [await shard.alerting.report(query) for shard in shards]
        stale = [why for shard in shards if (why := _why_stale(shard)) is not None]
        made_at = max((part.made_at for part in parts), default=query.until)
        merged = await merged_report(parts, query, made_at=made_at)
        if not stale:
            return merged
        merged = msgspec.structs.replace(merged, missing=(*merged.missing, *stale))
        return msgspec.structs.replace(merged, verdict=summary_of(merged))

    async def process_letters(
        self, output: str, action: LetterAction, event_ids: tuple[str, ...] | None
    ) -> LettersProcessed:
        shards = [shard for shard in self._shards.all() if output in shard.alerting.outputs()]
        if not shards:
            raise KeyError(output)
        done = await self._of_each(
            lambda shard: shard.alerting.process_letters(output, action, event_ids), of=shards
        )
        reasons = dict.fromkeys(each.reason for each in done if each.reason is not None)
        missing = set.intersection(*(set(each.missing) for each in done))
        return LettersProcessed(
            output=output,
            sent=sum(each.sent for each in done),
            refused=sum(each.refused for each in done),
            skipped=sum(each.skipped for each in done),
            dropped=sum(each.dropped for each in done),
            missing=tuple(sorted(missing)),
            left=sum(each.left for each in done),
            reason="; ".join(reasons) or None,
        )

    async def _of_each(
        self,
        request: Callable[[ShownShard], Awaitable[T]],
        *,
        of: Iterable[ShownShard] | None = None,
    ) -> list[T]:
        """Return the answer of each shard.

        Raises:
            MonitorError: of the first that refused; all others have done it.
        """
        shards = self._shards.all() if of is None else of
        answers = await asyncio.gather(*map(request, shards), return_exceptions=True)
        done: list[T] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            done.append(answer)
        return done


def _why_stale(shard: ShownShard) -> str | None:
    """Return why what is shown of a shard may be old; None where it is not."""
    mirrored = None if shard.mirrored is None else shard.mirrored()
    if mirrored is None or (mirrored.reason is None and mirrored.read_at is not None):
        return None
    return f"shard {shard.name} is not read now: {mirrored.reason or 'it was not read yet'}"


def merged_snapshot(snapshots: Sequence[AlertingSnapshot]) -> AlertingSnapshot:
    """Return several snapshots as one.

    What several shards have alike, such as a silence or an alert about the daemon, is there once.
    """
    alerts: dict[str, Alert] = {}
    silences: dict[str, Silence] = {}
    for snapshot in snapshots:
        for alert in snapshot.alerts:
            before = alerts.get(alert.fingerprint)
            if before is None or _is_more(alert, before):
                alerts[alert.fingerprint] = alert
        for silence in snapshot.silences:
            silences.setdefault(silence.id, silence)
    return AlertingSnapshot(
        alerts=tuple(alerts.values()),
        silences=tuple(silences.values()),
        limits=tuple(chain.from_iterable(snapshot.limits for snapshot in snapshots)),
        cadences=tuple(chain.from_iterable(snapshot.cadences for snapshot in snapshots)),
        expected=_united(snapshot.expected for snapshot in snapshots),
        after_grace=_united(snapshot.after_grace for snapshot in snapshots),
        missed=_united(snapshot.missed for snapshot in snapshots),
        transitions=_summed(snapshot.transitions for snapshot in snapshots),
        rules=tuple(dict.fromkeys(chain.from_iterable(each.rules for each in snapshots))),
        failing_rules=_united(snapshot.failing_rules for snapshot in snapshots),
        failures=_summed(snapshot.failures for snapshot in snapshots),
    )


def _is_more(alert: Alert, before: Alert) -> bool:
    order = [AlertState.RESOLVED, AlertState.PENDING, AlertState.FIRING]
    return order.index(alert.state) > order.index(before.state)


def _knows(snapshot: AlertingSnapshot, fingerprint: str) -> bool:
    return any(alert.fingerprint == fingerprint for alert in snapshot.alerts)


def _starts_at(alert: Alert) -> datetime:
    return alert.starts_at


def _united(mappings: Iterable[Mapping[Any, T]]) -> dict[Any, T]:
    return dict(chain.from_iterable(mapping.items() for mapping in mappings))


def _summed(mappings: Iterable[Mapping[Any, int]]) -> dict[Any, int]:
    counter: Counter[Any] = Counter()
    for mapping in mappings:
        counter.update(mapping)
    return dict(counter)
