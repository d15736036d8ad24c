"""The requests of page and command line, routed to a workspace or to alerting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from monitor.alerting.alerts.silences import Labels, labels_to_match
from monitor.alerting.engine.committed_state import ended_alert
from monitor.alerting.engine.engine import Engine
from monitor.alerting.engine.suppression import muted_by
from monitor.alerting.explain.applied_rules import applied_rules, starts_days_off
from monitor.alerting.explain.explainer import Explainer
from monitor.alerting.reports.reporter import Reporter
from monitor.app.hosted.following import FollowedWorkspace
from monitor.bus.contract import Retention, StoredShard
from monitor.model.actions import Action, ActionResult
from monitor.model.alerts import Alert
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError, NoSuchObjectError
from monitor.model.notifying import MessagePreview, OutputTypes, WhyNotTaken, always_taken
from monitor.model.runs import RunKey, RunKind
from monitor.outputs.replaying import Replayed
from monitor.tracking.live_state import LiveStateView
from monitor.web.requests import AlertingRequests, ProcessLetters

Previews = Callable[[Alert], Awaitable[Sequence[MessagePreview]]]


class AdminRequests:
    """Routes a request to the workspace that it names; ``followed`` are those of one shard."""

    def __init__(self, followed: Mapping[str, FollowedWorkspace]) -> None:
        self._followed = followed

    async def track(self, workspace: str, kind: RunKind, run_id: str) -> str:
        """Follow one run by its id and return the result as one sentence.

        Raises:
            BusUnavailableError: the request could not be stored.
            ConfigurationError: no such workspace is followed, or it tracks too many already.
            NoSuchObjectError: the workspace denies the run.
        """
        followed = self._named(workspace)
        key = RunKey(followed.name, kind, run_id)
        is_followed = await followed.tracked_runs.track(key)
        if is_followed is None:
            return (
                f"{key} cannot be asked for now; the request is stored, and repeated until "
                "the workspace answers"
            )
        if not is_followed:
            raise NoSuchObjectError(
                f"{key} is denied by the workspace, or is none that is followed"
            )
        return f"following {key}"

    async def untrack(self, workspace: str, kind: RunKind, run_id: str) -> str:
        """Drop a request to follow a run and return the result as one sentence.

        Raises:
            BusUnavailableError: it could not be removed.
            ConfigurationError: no such workspace is followed, or the run was read or is configured.
            NoSuchObjectError: no such request waits.
        """
        followed = self._named(workspace)
        key = RunKey(followed.name, kind, run_id)
        await followed.tracked_runs.untrack(key)
        return f"{key} is not asked for any more"

    async def act_on_webhooks(
        self, workspace: str, action: str, flow: str | None
    ) -> list[dict[str, Any]]:
        """List, synchronise, test or delete webhook tasks; raises as the workspace's own does."""
        return await self._named(workspace).act_on_webhooks(action, flow)

    async def act(self, workspace: str, action: Action, not_after: datetime) -> ActionResult:
        """Act on a run for a user; raises as `RunActions.act`, and for an unknown workspace."""
        return await self._named(workspace).actions.act(action, not_after=not_after)

    def _named(self, workspace: str) -> FollowedWorkspace:
        followed = self._followed.get(workspace)
        if followed is None:
            raise ConfigurationError(f"workspace {workspace!r} is not followed now")
        return followed


def alerting_requests(
    engine: Engine,
    *,
    bus: StoredShard,
    view: LiveStateView,
    clock: Clock,
    retention: Retention,
    types: Callable[[], OutputTypes],
    why_not_taken: WhyNotTaken = always_taken,
    replay: Callable[[str, datetime], Awaitable[Replayed]],
    process_letters: ProcessLetters,
    previews: Previews,
) -> AlertingRequests:
    """Return the requests that alerting and the outputs of a shard answer; ``types`` by output."""
    explainer = Explainer(
        bus=bus, view=view, engine=engine, outputs=types, why_not_taken=why_not_taken
    )
    reporter = Reporter(bus=bus, view=view, engine=engine, clock=clock, retention=retention)

    def labels() -> Labels:
        rules, alerts = engine.compiled.rules, engine.snapshot().alerts
        return labels_to_match(
            (label for rule in rules for label in rule.settings.labels),
            # Also those of alerts whose rule or workspace was removed.
            rules=[*(rule.name for rule in rules), *(alert.name for alert in alerts)],
            workspaces=[
                *(workspace.workspace for workspace in view.workspaces()),
                *(alert.workspace for alert in alerts),
            ],
        )

    def unnotified() -> str | None:
        is_worth_it = engine.settings.warn_without_output and engine.snapshot().rules
        return explainer.notifications.why_not_notified() if is_worth_it else None

    return AlertingRequests(
        snapshot=engine.snapshot,
        ended=partial(_ended, engine),
        labels=labels,
        add_silence=engine.add_silence,
        expire_silence=engine.expire_silence,
        past=engine.past.find,
        rules_for=lambda workspace, pipeline: applied_rules(engine, view, workspace, pipeline),
        starts_days_off=partial(starts_days_off, engine, view),
        acknowledge=engine.acknowledge,
        would_mute=lambda matchers: muted_by(matchers, engine.snapshot().alerts),
        explain_alert=explainer.alert,
        explain_run=explainer.run,
        explain_pipeline=explainer.pipeline,
        outputs=types,
        unnotified=unnotified,
        notifications=explainer.notifications.of,
        replay=replay,
        report=reporter.report,
        process_letters=process_letters,
        preview=partial(_preview, engine, previews),
    )


def _ended(engine: Engine, fingerprint: str) -> list[Alert]:
    return [ended_alert(row) for row in engine.past.of(fingerprint)]


async def _preview(
    engine: Engine, previews: Previews, fingerprint: str
) -> Sequence[MessagePreview] | None:
    known = (alert for alert in engine.snapshot().alerts if alert.fingerprint == fingerprint)
    alert = next(known, None) or next(reversed(_ended(engine, fingerprint)), None)
    return None if alert is None else await previews(alert)
