"""Explains a run, an alert or a pipeline: why people were notified, or why not.

Nothing is written down for it: the answer is read from the log, the alerts and the evaluations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from monitor.alerting.engine.engine import Engine
from monitor.alerting.explain.evidence import (
    EvidenceSearch,
    ExplainedRun,
    FoundAlert,
)
from monitor.alerting.explain.explanation import (
    Explanation,
    ExplanationStep,
    StepOutcome,
    alert_name,
    instant,
    with_unwatched,
)
from monitor.alerting.explain.findings import Findings, RuleFinding, is_open, why_excluded
from monitor.alerting.explain.never_shown import why_limited
from monitor.alerting.explain.notification_reader import NotificationReader
from monitor.alerting.explain.steps import (
    alert_steps,
    delivery_steps,
    event_step,
    no_output_step,
    no_rule_step,
    observation_steps,
    part_steps,
    rule_steps,
)
from monitor.bus.contract import Recorded, StoredShard
from monitor.model.alerts import OPENINGS, Alert, alert_event_id
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_ids
from monitor.model.live_state import Reachability
from monitor.model.notifying import OutputTypes, WhyNotTaken, always_taken
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from monitor.tracking.live_state import LiveStateView

_EVIDENCE_SHOWN = 20
_REMINDERS_SHOWN = 5
_RECURRING_SHOWN = 20
_ENDED_READ = 100  # fingerprints; each is sought among all ended alerts
_EVIDENCE_READ = 1_000  # events of other alerts
_RUN_EVENTS = (
    *STATUS_EVENTS.values(),
    EventType.RUN_DETAILED,
    EventType.RUN_CONFIRMED,
    EventType.RUN_CORRECTED,
)


class Explainer:
    """Answers questions about one run, one alert or one pipeline."""

    def __init__(
        self,
        *,
        bus: StoredShard,
        view: LiveStateView,
        engine: Engine,
        outputs: Callable[[], OutputTypes],
        why_not_taken: WhyNotTaken = always_taken,
    ) -> None:
        self._bus = bus
        self._view = view
        self._engine = engine
        self.notifications = NotificationReader(
            bus=bus, outputs=outputs, why_not_taken=why_not_taken
        )

    async def run(self, key: RunKey) -> Explanation | None:
        """Return what became of a run; None where it is unknown or forgotten."""
        explanation = await self._of_run(key)
        kinds = [key.kind] if self._view.active_run(key) is not None else []
        return await self._completed(explanation, key.workspace, kinds)

    async def _of_run(self, key: RunKey) -> Explanation | None:
        run = (await self._bus.runs([key])).get(key)
        corrections = 0 if run is None else run.corrections
        ids = frozenset(run_event_ids(key, _RUN_EVENTS, corrections=corrections))
        events = await self._recorded(ids)
        if run is None:
            logged = [row.event.run for row in events if isinstance(row.event, RunEvent)]
            if not logged:
                return None
            run = logged[-1]  # the log keeps it longer
        steps = observation_steps(run, has_events=bool(events))
        if run.unconfirmed_end is not None:
            run = replace(run, status=run.unconfirmed_end)  # as rules have handled it
        await self._engine.lineage.prepare([run])
        findings = Findings(self._engine, self._view)
        line = self._engine.lineage.line(run)
        explained = ExplainedRun(
            run=run, root=line[-1].key, ids=ids, fingerprints=findings.evidence_of(run, line)
        )
        reported = await EvidenceSearch(self._engine, self._bus).alerts_of(explained)
        if not events and not reported:
            alerts = findings.preexisting(run) if run.historical else []
            for alert in alerts:
                steps += await self._alert_steps(FoundAlert(alert), findings)
            return Explanation.of(f"run {key}", steps, alerts)
        steps += [event_step(recorded) for recorded in events]
        steps += part_steps(run, line[-1])
        judged = findings.of_run(run, line[-1], events, reported)
        return await self._judged(run, steps, judged, events, findings)

    async def _judged(
        self,
        run: RunState,
        steps: list[ExplanationStep],
        judged: Sequence[RuleFinding],
        events: Sequence[Recorded],
        findings: Findings,
    ) -> Explanation:
        """Return the explanation of a run by what rules made of it; the first finding answers.

        Of a run that failed only rules about failures answer: what others find of its pipeline
        is no reason.
        """
        no_rule = no_rule_step(judged, run.status)
        rules = [] if no_rule is None else [no_rule]
        rules += rule_steps(judged, findings.suppressors)
        alerts = [finding.found.alert for finding in judged if finding.found is not None]
        published = await self._published(alerts, earlier=events)
        steps += rules + published
        reported = alerts[0] if alerts and alerts[0].is_notified else None
        by: list[ExplanationStep] | None = None
        if reported is not None:
            prefix = alert_event_id(reported.fingerprint, reported.starts_at, "")
            by = [
                rules[0],
                *(
                    step
                    for step in published
                    if step.event_id is None or step.event_id.startswith(prefix)
                ),
            ]
        elif no_rule is not None:
            by = [no_rule]
        elif count := len(alerts) or sum(finding.is_about_end for finding in judged):
            by = rules[:count]
        excluded = None if run.status is Status.SUCCEEDED else why_excluded(judged, run.status)
        explanation = Explanation.of(
            f"run {run.key}", steps, alerts, by=by, reported=reported, excluded=excluded
        )
        is_over = run.status.is_terminal and explanation.reason is StepOutcome.CONDITION_NOT_MET
        if excluded is not None and is_over:
            # The end was all that the rule's condition needs.
            return replace(explanation, reason=StepOutcome.NO_MATCHING_RULE)
        return explanation

    async def alert(self, key: str) -> Explanation | None:
        """Return how the newest alert of a fingerprint came about; None where there is none."""
        explanation = await self._of_alert(key)
        return await self._completed(explanation, "", ())

    async def _of_alert(self, key: str) -> Explanation | None:
        findings = Findings(self._engine, self._view)
        found = findings.newest(key)
        if found is None:
            return None
        evidence = await self._recorded(found.alert.evidence[-_EVIDENCE_SHOWN:])
        steps = [event_step(recorded) for recorded in evidence]
        steps += await self._alert_steps(found, findings)
        return Explanation.of(alert_name(found.alert), steps, [found.alert])

    async def pipeline(self, workspace: str, kind: PipelineKind, key: str) -> Explanation | None:
        """Return what each rule finds of a flow or plan now; None where it is not known.

        For what did not happen: a run that never came has no id to ask for.
        """
        explanation = await self._of_pipeline(workspace, kind, key)
        explanation = await self._completed(explanation, workspace, RUN_KINDS[kind])
        status = self._view.workspace(workspace)
        why = why_limited(status) if status and kind is PipelineKind.FLOW else None
        unshared = self._view.why_unshared(workspace, Pipeline(kind=kind, id=key))
        unseen = unshared and f"nothing new is seen of its runs now: {unshared}"
        if explanation is None or not (why or unseen):
            return explanation
        return with_unwatched(explanation, list(filter(None, (why, unseen))))

    async def _completed(
        self, explanation: Explanation | None, workspace: str, kinds: Iterable[RunKind]
    ) -> Explanation | None:
        """Add who was notified, why alerts cannot be judged now and kinds of runs are not seen."""
        if explanation is None:
            return None
        notified = await self.notifications.of(explanation.alerts)
        alerts = tuple(
            replace(alert, is_notified=found.at is not None, notified_at=found.at)
            for alert, found in zip(explanation.alerts, notified, strict=True)
        )
        explanation = replace(explanation, alerts=alerts)
        unwatched = [
            f"nothing new is seen of {kind} now: {why}"
            for kind in kinds
            if (why := self._why_unwatched(workspace, kind)) is not None
        ]
        unwatched += [
            f"{alert_name(alert)} cannot be judged now: {why}"
            for alert in explanation.alerts
            if (why := self._view.why_unjudged(alert)) is not None
        ]
        return with_unwatched(explanation, unwatched)

    def _why_unwatched(self, workspace: str, kind: RunKind) -> str | None:
        """Return why nothing new is seen; of a workspace that is unreachable with what it said."""
        why, status = self._view.why_unwatched(workspace, kind), self._view.workspace(workspace)
        if why is None or status is None or status.reachability is not Reachability.UNREACHABLE:
            return why
        return ": ".join(filter(None, (why, status.reason)))

    async def _of_pipeline(
        self, workspace: str, kind: PipelineKind, key: str
    ) -> Explanation | None:
        known = [
            pipeline
            for pipeline in self._view.pipelines()
            if (pipeline.workspace, pipeline.kind, pipeline.id) == (workspace, kind, key)
        ]
        if not known:
            return None
        pipeline = Pipeline(kind=kind, id=key, name=known[0].name)
        subject = f"{kind} {key} ({known[0].label}) of {workspace}"
        findings = Findings(self._engine, self._view)
        judged = [*findings.of_pipeline(workspace, pipeline)]
        steps = rule_steps(judged, findings.suppressors)
        alerts = [finding.found.alert for finding in judged if finding.found is not None]
        own = {alert.fingerprint for alert in alerts}
        others = [alert for alert in findings.alerts.values() if alert.fingerprint not in own]
        evidence = await self._evidence(workspace, pipeline, filter(is_open, others))
        alerts += [findings.alerts[fingerprint] for fingerprint in evidence]
        if not alerts:
            ended = [alert for alert in others if not is_open(alert)]
            last = await self._last(workspace, pipeline, findings, judged, ended)
            now = Explanation.of(subject, steps, excluded=why_excluded(judged))
            return await self._with_last(now, last, findings)
        steps += rule_steps(findings.of_evidence(evidence), findings.suppressors)
        steps += await self._published(alerts)
        reported = next((alert for alert in alerts if alert.is_notified), None)
        return Explanation.of(subject, steps, alerts, reported=reported)

    async def _evidence(
        self, workspace: str, pipeline: Pipeline, alerts: Iterable[Alert]
    ) -> dict[str, list[str]]:
        """Return the events of a pipeline that are evidence of alerts, by fingerprint.

        A plan whose flow failed first fires as that flow, a flow in a plan as that plan.
        """
        prefixes = tuple(f"{workspace}:{kind}:" for kind in RUN_KINDS[pipeline.kind])
        evidence = (
            (event_id, alert.fingerprint)
            for alert in alerts
            for event_id in alert.evidence
            if event_id.startswith(prefixes)
        )
        read = list(islice(evidence, _EVIDENCE_READ))
        events = await self._bus.events_by_id({event_id for event_id, _ in read})
        found: defaultdict[str, list[str]] = defaultdict(list)
        for event_id, fingerprint in read:
            event = events[event_id].event if event_id in events else None
            of = event.run.pipeline if isinstance(event, RunEvent) else None
            if of is not None and (of.kind, of.id) == (pipeline.kind, pipeline.id):
                found[fingerprint].append(event_id)
        return found

    async def _last(
        self,
        workspace: str,
        pipeline: Pipeline,
        findings: Findings,
        judged: Sequence[RuleFinding],
        ended: Iterable[Alert],
    ) -> FoundAlert | None:
        """Return the alert of a pipeline that ended last, where none is open."""
        keys = dict.fromkeys(finding.fingerprint for finding in judged if finding.mismatch is None)
        newest = [findings.newest(key) for key in islice(keys, _ENDED_READ)]
        last = [found for found in newest if found is not None]
        evidence = await self._evidence(workspace, pipeline, ended)
        last += [FoundAlert(findings.alerts[fingerprint]) for fingerprint in evidence]
        return max(
            last, key=lambda found: found.alert.ends_at or found.alert.starts_at, default=None
        )

    async def _with_last(
        self, now: Explanation, last: FoundAlert | None, findings: Findings
    ) -> Explanation:
        """Return the explanation by the alert that ended last, after what rules find now."""
        # A rule that fails may hide what is wrong now, which counts more.
        if last is None or now.reason is StepOutcome.RULE_FAILED:
            return now
        ends_at = last.alert.ends_at
        since = "" if ends_at is None else f", resolved {instant(ends_at)}"
        steps = await self._alert_steps(last, findings)
        subject = f"{now.subject}: no open alert; last was {alert_name(last.alert)}{since}"
        explanation = Explanation.of(subject, steps, [last.alert])
        return replace(explanation, subject=now.subject, steps=(*now.steps, *steps))

    async def _alert_steps(self, found: FoundAlert, findings: Findings) -> list[ExplanationStep]:
        rule = findings.rules.get(found.alert.name)
        steps = alert_steps(found, rule, findings.suppressors)
        return steps + await self._published([found.alert])

    async def _published(
        self, alerts: Sequence[Alert], *, earlier: Sequence[Recorded] = ()
    ) -> list[ExplanationStep]:
        """Return the events of alerts, and the deliveries of these and of those before them."""
        events = await self._recorded(
            event_id for alert in alerts for event_id in _event_ids(alert)
        )
        steps = [*map(event_step, events)]
        steps += delivery_steps([*earlier, *events], await self.notifications.progress())
        if any(alert.is_notified for alert in alerts) and (
            why := self.notifications.why_not_notified()
        ):
            steps.append(no_output_step(why))
        return steps

    async def _recorded(self, ids: Iterable[str]) -> list[Recorded]:
        found = await self._bus.events_by_id(list(ids))
        return sorted(found.values(), key=lambda recorded: recorded.position)


def _event_ids(alert: Alert) -> Iterable[str]:
    """Yield the ids of events that an alert may have; the log knows which it has."""
    numbers = {
        "fired": OPENINGS,
        "flapping": OPENINGS,
        "resolved": OPENINGS,
        "reminded": range(max(1, alert.reminders - _REMINDERS_SHOWN + 1), alert.reminders + 1),
        "silenced": range(1, _RECURRING_SHOWN + 1),
        "acknowledged": range(1, _RECURRING_SHOWN + 1),
    }
    for transition, of_transition in numbers.items():
        for number in of_transition:
            yield alert_event_id(alert.fingerprint, alert.starts_at, transition, number)
