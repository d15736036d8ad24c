"""The next state of an alert, by evaluation results and by time. Pure: no I/O and no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.alerts.acknowledging import within_length, without_ended
from monitor.alerting.alerts.added_evidence import (
    EVIDENCE_KEPT,
    with_evidence,
    with_late_evidence,
)
from monitor.alerting.alerts.instance import (
    AlertInstance,
    AlertSpan,
    FingerprintHistory,
    FingerprintState,
    LifecycleOutcome,
    StepWord,
)
from monitor.alerting.rules.contract import Firing, Ok, OverWhenSeen, Unknown
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.alerts import ENDED_BECAUSE, Alert, AlertState

_SPANS_KEPT = 20
_SILENCE = "silence:"


class LifecycleLimits(Struct, frozen=True, kw_only=True):
    """How quickly changes count as flapping, and how long a resolved alert is still shown."""

    flap_count: int = 3
    flap_seconds: float = 3_600.0
    resolved_kept_seconds: float = 3_600.0


class EvaluationTime(Struct, frozen=True, kw_only=True):
    """When an alert takes a step, and what suppresses it then.

    ``now`` is our steady clock, which no jump of the wall clock moves. ``as_of`` is until when
    everything is known by the clock of the subject; None: not known now. It does not matter where
    the subject is judged by our clock (``is_ours``).
    """

    now: datetime
    as_of: datetime | None
    is_ours: bool = False
    muted_by: tuple[str, ...] = ()
    limits: LifecycleLimits = LifecycleLimits()
    is_event: bool = False  # an event caused the result, so its facts are new


def firing(
    state: FingerprintState,
    result: Firing,
    fresh: Alert,
    rule: RuleSettings,
    moment: EvaluationTime,
) -> LifecycleOutcome:
    """``fresh`` is the alert as it would begin now, its start taken from the evidence."""
    if isinstance(state, FingerprintHistory):
        instance = _pending(state, fresh, moment.now)
    elif state.is_open:
        instance = with_evidence(state, result, fresh, is_news=moment.is_event)
        instance = _with_start(instance, fresh.starts_at)
    else:
        instance = _pending(state.past, fresh, moment.now)
    if instance.alert.state is AlertState.FIRING:
        step = StepWord.DEDUPLICATED if instance.alert.is_notified else StepWord.MUTED
        return LifecycleOutcome(state=instance, step=step)
    if rule.for_seconds > 0 and not _has_lasted(instance, rule, moment):
        return LifecycleOutcome(state=instance, step=StepWord.PENDING)
    return _fire(instance, moment)


def not_firing(state: FingerprintState, result: Ok | Unknown, *, now: datetime) -> LifecycleOutcome:
    """End the alert by `Ok`, unless it is flapping. `Unknown` leaves it as it is."""
    if isinstance(result, Unknown):
        if isinstance(state, AlertInstance) and state.is_open and state.is_met:
            state = msgspec.structs.replace(state, is_met=False)
        return LifecycleOutcome(state=state, step=StepWord.UNKNOWN)
    if isinstance(state, FingerprintHistory):
        return LifecycleOutcome(state=state, step=StepWord.OK)
    is_flapping = state.alert.state is AlertState.FIRING and state.alert.is_flapping
    if result.reason is not None or not is_flapping:
        return end(state, result.at, now=now, reason=result.reason)
    if state.clear_since is None:
        state = msgspec.structs.replace(state, clear_since=result.at, quiet_since=now, is_met=False)
    return LifecycleOutcome(state=state, step=StepWord.FLAPPING)


def over_when_seen(
    state: FingerprintState,
    result: OverWhenSeen,
    fresh: Alert,
    rule: RuleSettings,
    moment: EvaluationTime,
) -> tuple[LifecycleOutcome, ...]:
    """Fire and resolve in one step what was over before it was observed; it never flaps.

    Inside an alert, open or ended, it is evidence of that one.
    """
    past = state.past if isinstance(state, AlertInstance) else state
    if isinstance(state, AlertInstance):
        is_known = result.is_known and state.root_run == result.run
        if state.is_open or is_known or state.has_ended_around(result.since):
            after = with_late_evidence(state, result.evidence)
            return (LifecycleOutcome(state=after, step=StepWord.DEDUPLICATED),)
    if result.is_known or past.span_around(result.since) is not None:
        return (LifecycleOutcome(state=state, step=StepWord.DEDUPLICATED),)
    if (result.until - result.since).total_seconds() < rule.for_seconds:
        return (LifecycleOutcome(state=state, step=StepWord.TOO_SHORT),)
    alert = msgspec.structs.replace(
        fresh,
        state=AlertState.FIRING,
        evidence=fresh.evidence[-EVIDENCE_KEPT:],
        over_when_seen=True,
    )
    begun = _numbered(AlertInstance(alert=alert, since=moment.now, past=past, is_met=False))
    first = _muted(begun, moment) if moment.muted_by else _notified(begun, moment)
    if not isinstance(first.state, AlertInstance):
        raise TypeError("an alert that began is an instance")
    return first, end(first.state, result.until, now=moment.now)


def pass_time(
    instance: AlertInstance, rule: RuleSettings, moment: EvaluationTime
) -> LifecycleOutcome:
    """What time alone changes: pending to firing, reminders, ends of what holds them back."""
    instance = _not_of_the_future(instance, moment.now)
    age_seconds = (moment.now - instance.since).total_seconds()
    if instance.alert.state is AlertState.RESOLVED:
        is_over = age_seconds >= moment.limits.resolved_kept_seconds
        return LifecycleOutcome(state=instance.past if is_over else instance)
    instance = without_ended(instance, moment.now)
    if instance.alert.state is AlertState.PENDING:
        if instance.is_met and _has_lasted(instance, rule, moment):
            return _fire(instance, moment)
        return LifecycleOutcome(state=instance)
    if instance.quiet_since is not None and instance.clear_since is not None:
        quiet_seconds = (moment.now - instance.quiet_since).total_seconds()
        if quiet_seconds >= moment.limits.flap_seconds / 2:
            return end(instance, instance.clear_since, now=moment.now)
    return _suppressed_or_reminded(instance, rule, moment)


def next_timer_at(
    instance: AlertInstance, rule: RuleSettings, limits: LifecycleLimits
) -> datetime | None:
    """Return until when `pass_time` changes nothing, as long as its suppression stays the same.

    None: time alone never changes it.
    """
    alert = instance.alert
    if alert.state is AlertState.RESOLVED:
        return instance.since + timedelta(seconds=limits.resolved_kept_seconds)
    times: list[datetime] = []
    if instance.acknowledged_until is not None:
        times.append(instance.acknowledged_until)
    if alert.state is AlertState.PENDING:
        if instance.is_met:
            times.append(instance.since + timedelta(seconds=rule.for_seconds))
        return min(times, default=None)
    owes = instance.owes_reminder or not alert.is_notified
    if alert.muted_by or (instance.is_met and owes):
        return instance.since
    if instance.quiet_since is not None and instance.clear_since is not None:
        times.append(instance.quiet_since + timedelta(seconds=limits.flap_seconds / 2))
    if instance.is_met and rule.repeat_seconds > 0 and alert.acknowledged is None:
        times.append((alert.notified_at or instance.since) + timedelta(seconds=rule.repeat_seconds))
    return min(times, default=None)


def end(
    instance: AlertInstance, at: datetime, *, now: datetime, reason: str | None = None
) -> LifecycleOutcome:
    """End an alert in any state; its end is published where its start was."""
    alert = instance.alert
    if alert.state is AlertState.RESOLVED:
        return LifecycleOutcome(state=instance, step=StepWord.OK)
    if alert.state is AlertState.PENDING:
        return LifecycleOutcome(state=instance.past, step=StepWord.ENDED_PENDING)
    facts = alert.facts if reason is None else {**alert.facts, ENDED_BECAUSE: reason}
    alert = msgspec.structs.replace(
        alert, state=AlertState.RESOLVED, ends_at=max(at, alert.starts_at), facts=facts
    )
    past = _with_span(instance, alert)
    if not alert.is_notified:
        return LifecycleOutcome(state=past, step=StepWord.ENDED_UNNOTIFIED)
    return LifecycleOutcome(
        state=AlertInstance(alert=alert, since=now, past=past, is_met=False),
        step=StepWord.RESOLVED,
        is_published=True,
        occurred_at=alert.ends_at,
        number=_opening_number(instance),
    )


def is_silenced(muted_by: tuple[str, ...]) -> bool:
    return any(text.startswith(_SILENCE) for text in muted_by)


def _pending(past: FingerprintHistory, fresh: Alert, now: datetime) -> AlertInstance:
    alert = msgspec.structs.replace(
        fresh, state=AlertState.PENDING, evidence=fresh.evidence[-EVIDENCE_KEPT:]
    )
    return AlertInstance(alert=alert, since=now, past=past)


def _with_start(instance: AlertInstance, starts_at: datetime) -> AlertInstance:
    """Return the alert with a better start, as long as no event has gone out under the former."""
    alert = instance.alert
    has_events = alert.is_notified or instance.silenced or instance.acknowledgements
    if has_events or starts_at == alert.starts_at:
        return instance
    alert = msgspec.structs.replace(alert, starts_at=starts_at)
    instance = msgspec.structs.replace(instance, alert=alert, opening=1)
    return _numbered(instance) if alert.state is AlertState.FIRING else instance


def _numbered(instance: AlertInstance) -> AlertInstance:
    """Return an alert that begins, its transitions numbered after those of the same start."""
    former = instance.past.span_from(instance.alert.starts_at)
    if former is None:
        return instance
    return msgspec.structs.replace(
        instance,
        alert=msgspec.structs.replace(instance.alert, reminders=former.reminders),
        silenced=former.silenced,
        acknowledgements=former.acknowledgements,
        opening=former.openings + 1,
    )


def _opening_number(instance: AlertInstance) -> int:
    return instance.opening if instance.opening > 1 else 0


def _with_span(instance: AlertInstance, ended: Alert) -> FingerprintHistory:
    span = AlertSpan(
        starts_at=ended.starts_at,
        ends_at=ended.ends_at or ended.starts_at,
        openings=instance.opening,
        reminders=ended.reminders,
        silenced=instance.silenced,
        acknowledgements=instance.acknowledgements,
    )
    others = (other for other in instance.past.spans if other.starts_at != span.starts_at)
    return FingerprintHistory(spans=(*others, span)[-_SPANS_KEPT:], starts=instance.past.starts)


def _has_lasted(instance: AlertInstance, rule: RuleSettings, moment: EvaluationTime) -> bool:
    """True once it has lasted `for_seconds`, by our clock and by what is known of the subject's."""
    if rule.for_seconds <= 0:
        return True
    lasting = timedelta(seconds=rule.for_seconds)
    if moment.now - instance.since < lasting:
        return False
    is_known = moment.as_of is not None and moment.as_of - instance.alert.starts_at >= lasting
    return moment.is_ours or is_known


def _fire(instance: AlertInstance, moment: EvaluationTime) -> LifecycleOutcome:
    instance = without_ended(instance, moment.now)
    starts_at = instance.alert.starts_at
    since = starts_at - timedelta(seconds=moment.limits.flap_seconds)
    # By starts and not by now, so that a repeated step decides alike.
    starts = (*(start for start in instance.past.starts if start > since), starts_at)
    alert = msgspec.structs.replace(
        instance.alert, state=AlertState.FIRING, is_flapping=len(starts) >= moment.limits.flap_count
    )
    past = msgspec.structs.replace(instance.past, starts=starts[-moment.limits.flap_count :])
    firing = _numbered(msgspec.structs.replace(instance, alert=alert, past=past, since=moment.now))
    if moment.muted_by:
        return _muted(firing, moment)
    return _notified(firing, moment)


def _suppressed_or_reminded(
    instance: AlertInstance, rule: RuleSettings, moment: EvaluationTime
) -> LifecycleOutcome:
    alert = instance.alert
    if moment.muted_by and moment.muted_by != alert.muted_by:
        return _muted(instance, moment)
    was_silenced = is_silenced(alert.muted_by) and not moment.muted_by
    if alert.muted_by and not moment.muted_by:
        alert = msgspec.structs.replace(alert, muted_by=())
        instance = msgspec.structs.replace(instance, alert=alert)
    if moment.muted_by or not instance.is_met:
        return LifecycleOutcome(state=instance)
    if not alert.is_notified:
        return _notified(instance, moment)
    if alert.acknowledged is not None:
        return LifecycleOutcome(state=instance)
    notified_at = alert.notified_at or instance.since
    is_time = 0 < rule.repeat_seconds <= (moment.now - notified_at).total_seconds()
    if was_silenced or instance.owes_reminder or is_time:
        return _reminded(instance, moment)
    return LifecycleOutcome(state=instance)


def _muted(instance: AlertInstance, moment: EvaluationTime) -> LifecycleOutcome:
    """Keep what suppresses it. The start of a silence is published, once for each start."""
    begins = is_silenced(moment.muted_by) and not is_silenced(instance.alert.muted_by)
    alert = msgspec.structs.replace(instance.alert, muted_by=moment.muted_by)
    number = instance.silenced + begins
    instance = msgspec.structs.replace(instance, alert=alert, silenced=number)
    if not begins:
        return LifecycleOutcome(state=instance, step=StepWord.MUTED)
    return LifecycleOutcome(
        state=instance,
        step=StepWord.SILENCED,
        is_published=True,
        occurred_at=moment.as_of,
        number=number,
    )


def _notified(instance: AlertInstance, moment: EvaluationTime) -> LifecycleOutcome:
    word = StepWord.FLAPPING if instance.alert.is_flapping else StepWord.FIRED
    alert = msgspec.structs.replace(
        instance.alert, is_notified=True, notified_at=moment.now, muted_by=()
    )
    return LifecycleOutcome(
        state=msgspec.structs.replace(instance, alert=alert),
        step=word,
        is_published=True,
        occurred_at=alert.starts_at,
        number=_opening_number(instance),
    )


def _reminded(instance: AlertInstance, moment: EvaluationTime) -> LifecycleOutcome:
    number = instance.alert.reminders + 1
    alert = msgspec.structs.replace(instance.alert, notified_at=moment.now, reminders=number)
    return LifecycleOutcome(
        state=msgspec.structs.replace(instance, alert=alert, owes_reminder=False),
        step=StepWord.REMINDED,
        is_published=True,
        occurred_at=moment.as_of,
        number=number,
    )


def _not_of_the_future(instance: AlertInstance, now: datetime) -> AlertInstance:
    """Count from now what was stored under a clock that was set back over a restart."""
    instance = within_length(instance, now)
    notified_at = instance.alert.notified_at
    if notified_at is not None and notified_at > now:
        alert = msgspec.structs.replace(instance.alert, notified_at=now)
        instance = msgspec.structs.replace(instance, alert=alert)
    if instance.quiet_since is not None and instance.quiet_since > now:
        instance = msgspec.structs.replace(instance, quiet_since=now)
    return msgspec.structs.replace(instance, since=now) if instance.since > now else instance
