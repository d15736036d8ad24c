"""What becomes of an episode, by verdicts and by time. Pure: no I/O and no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import EvaluationResult, Firing, Ok, Unknown
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.alerts import Alert, AlertState
from monitor.model.runs import RunKey

_EVIDENCE_KEPT = 50
_SILENCE = "silence:"


class LifecycleLimits(Struct, frozen=True, kw_only=True):
    """How quickly changes count as flapping, and how long what is over is still shown."""

    flap_count: int = 3
    flap_seconds: float = 3_600.0
    resolved_kept_seconds: float = 3_600.0


class EvaluationMoment(Struct, frozen=True, kw_only=True):
    """When something is judged, and what holds it back then.

    ``now`` is ours and moved by no jump of the wall clock. ``as_of`` is how far the clock of what
    is judged is known wholly, None where it is not known now; it does not matter where ``is_ours``.
    """

    now: datetime
    as_of: datetime | None
    is_ours: bool = False
    muted_by: tuple[str, ...] = ()
    limits: LifecycleLimits = LifecycleLimits()
    is_event: bool = False  # an event brought it, so what it says is news


class AlertPast(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a fingerprint between its episodes; kept as long as the log keeps its ids."""

    last_end: datetime | None = None
    starts: tuple[datetime, ...] = ()  # of what fired lately


class AlertInstance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert and what its next step depends on. ``since`` and ``quiet_since`` are ours."""

    alert: Alert
    since: datetime  # when its state changed last
    past: AlertPast = AlertPast()
    is_wrong: bool = True  # by the newest verdict
    clear_since: datetime | None = None  # of a flapping one: by its own clock
    quiet_since: datetime | None = None  # the same, when it was noticed
    silenced: int = 0  # how often
    newest_run: RunKey | None = None  # of the evidence; None: the alert's own

    @property
    def about_run(self) -> RunKey | None:
        """The outermost run of the newest evidence."""
        return self.newest_run or self.alert.run

    @property
    def is_open(self) -> bool:
        """True where it is pending or firing."""
        return self.alert.state is not AlertState.RESOLVED


class Transition(Struct, frozen=True, kw_only=True):
    """Something that is to be told. ``number`` counts transitions that may recur."""

    transition: str
    alert: Alert
    occurred_at: datetime | None
    number: int = 0


AlertSlot = AlertInstance | AlertPast
Outcome = tuple[
    AlertSlot, tuple[Transition, ...], str
]  # the last is the step's word, for `explain`


def judge(
    held: AlertSlot,
    result: EvaluationResult,
    fresh: Alert,
    rule: RuleSettings,
    moment: EvaluationMoment,
) -> Outcome:
    """``fresh`` is the alert as it would begin now, its start taken from the evidence."""
    if isinstance(result, Ok):
        return _ok(held, result, moment)
    if isinstance(result, Unknown):
        return (_in_doubt(held) if isinstance(held, AlertInstance) else held), (), "unclear"
    return _firing(held, result, fresh, rule, moment)


def pass_time(held: AlertInstance, rule: RuleSettings, moment: EvaluationMoment) -> Outcome:
    """What time alone brings: firing at last, reminders, ends of silences, quiet, forgetting."""
    held = _not_of_the_future(held, moment.now)
    age_seconds = (moment.now - held.since).total_seconds()
    if held.alert.state is AlertState.RESOLVED:
        is_over = age_seconds >= moment.limits.resolved_kept_seconds
        return (held.past if is_over else held), (), ""
    if held.alert.state is AlertState.PENDING:
        if held.is_wrong and _is_due(held, rule, moment):
            return _fire(held, moment)
        return held, (), ""
    if held.quiet_since is not None and held.clear_since is not None:
        quiet_seconds = (moment.now - held.quiet_since).total_seconds()
        if quiet_seconds >= moment.limits.flap_seconds / 2:
            return end(held, held.clear_since, now=moment.now)
    return _told_again(held, rule, moment)


def next_timer_at(
    held: AlertInstance, rule: RuleSettings, limits: LifecycleLimits
) -> datetime | None:
    """Return until when `pass_time` makes nothing of it, if meanwhile nothing holds it back.

    None: time alone never does.
    """
    alert = held.alert
    if alert.state is AlertState.RESOLVED:
        return held.since + timedelta(seconds=limits.resolved_kept_seconds)
    if alert.state is AlertState.PENDING:
        return held.since + timedelta(seconds=rule.for_seconds) if held.is_wrong else None
    if alert.muted_by or (held.is_wrong and not alert.is_told):
        return held.since
    times: list[datetime] = []
    if held.quiet_since is not None and held.clear_since is not None:
        times.append(held.quiet_since + timedelta(seconds=limits.flap_seconds / 2))
    if held.is_wrong and rule.repeat_seconds > 0:
        times.append((alert.told_at or held.since) + timedelta(seconds=rule.repeat_seconds))
    return min(times, default=None)


def end(held: AlertInstance, at: datetime, *, now: datetime, reason: str | None = None) -> Outcome:
    """End an episode, whatever its state; whoever was told of it is told that it is over."""
    alert = held.alert
    if alert.state is AlertState.RESOLVED:
        return held, (), "nothing was wrong"
    if alert.state is AlertState.PENDING:
        return held.past, (), "it was over before its time"
    facts = alert.facts if reason is None else {**alert.facts, "reason": reason}
    alert = msgspec.structs.replace(
        alert, state=AlertState.RESOLVED, ends_at=max(at, alert.starts_at), facts=facts
    )
    past = AlertPast(last_end=alert.ends_at, starts=held.past.starts)
    if not alert.is_told:
        return past, (), "nobody had been told"
    instance = AlertInstance(alert=alert, since=now, past=past, is_wrong=False)
    told = Transition(transition="resolved", alert=alert, occurred_at=alert.ends_at)
    return instance, (told,), "resolved"


def _ok(held: AlertSlot, result: Ok, moment: EvaluationMoment) -> Outcome:
    if isinstance(held, AlertPast):
        return held, (), "nothing was wrong"
    is_flapping = held.alert.state is AlertState.FIRING and held.alert.is_flapping
    if result.reason is not None or not is_flapping:
        return end(held, result.at, now=moment.now, reason=result.reason)
    if held.clear_since is not None:
        return held, (), "flapping"
    quiet = msgspec.structs.replace(
        held, clear_since=result.at, quiet_since=moment.now, is_wrong=False
    )
    return quiet, (), "flapping"


def _firing(
    held: AlertSlot, result: Firing, fresh: Alert, rule: RuleSettings, moment: EvaluationMoment
) -> Outcome:
    if isinstance(held, AlertPast):
        held = _begun(held, fresh, moment.now)
    elif held.alert.state is AlertState.RESOLVED:
        held = _begun(held.past, fresh, moment.now)
    else:
        held = with_evidence(held, result, fresh, is_news=moment.is_event)
    if held.alert.state is AlertState.FIRING:
        return held, (), "deduplicated" if held.alert.is_told else "muted"
    if not _is_due(held, rule, moment):
        return held, (), "pending"
    return _fire(held, moment)


def _begun(past: AlertPast, fresh: Alert, now: datetime) -> AlertInstance:
    """Return a pending episode. Two episodes never have one start, or their ids were one."""
    starts_at = fresh.starts_at
    if past.last_end is not None:
        starts_at = max(starts_at, past.last_end + timedelta(microseconds=1))
    alert = msgspec.structs.replace(
        fresh,
        state=AlertState.PENDING,
        starts_at=starts_at,
        evidence=fresh.evidence[-_EVIDENCE_KEPT:],
    )
    return AlertInstance(alert=alert, since=now, past=past)


def with_evidence(
    held: AlertInstance, result: Firing, fresh: Alert, *, is_news: bool
) -> AlertInstance:
    """Return the episode with what the verdict adds to it; itself where that is nothing."""
    alert = held.alert
    told = result.evidence[-_EVIDENCE_KEPT:]
    new = tuple(event_id for event_id in told if event_id not in alert.evidence)
    if new or is_news:
        evidence = (*alert.evidence, *new)
        if len(evidence) > _EVIDENCE_KEPT:
            # What is no evidence now goes first, or the rest would be new again with each look.
            evidence = tuple(sorted(evidence, key=told.__contains__)[-_EVIDENCE_KEPT:])
        alert = msgspec.structs.replace(
            alert,
            evidence=evidence,
            evidence_count=alert.evidence_count + len(new),
            facts={**alert.facts, **result.facts},
            annotations=fresh.annotations,
        )
    elif held.is_wrong and held.clear_since is None:
        return held
    return msgspec.structs.replace(
        held,
        alert=alert,
        clear_since=None,
        quiet_since=None,
        is_wrong=True,
        newest_run=(result.run if new else None) or held.newest_run,
    )


def with_facts(
    held: AlertInstance, facts: dict[str, str | float | None], fresh: Alert
) -> AlertInstance:
    """Return the episode with other facts, and what is said with them."""
    alert = msgspec.structs.replace(held.alert, facts=facts, annotations=fresh.annotations)
    return msgspec.structs.replace(held, alert=alert)


def _in_doubt(held: AlertInstance) -> AlertInstance:
    if held.alert.state is AlertState.RESOLVED or not held.is_wrong:
        return held
    return msgspec.structs.replace(held, is_wrong=False)


def _is_due(held: AlertInstance, rule: RuleSettings, moment: EvaluationMoment) -> bool:
    """True once it has been so for long enough, by our time and by what is known of theirs."""
    if rule.for_seconds <= 0:
        return True
    lasting = timedelta(seconds=rule.for_seconds)
    if moment.now - held.since < lasting:
        return False
    is_known = moment.as_of is not None and moment.as_of - held.alert.starts_at >= lasting
    return moment.is_ours or is_known


def _fire(held: AlertInstance, moment: EvaluationMoment) -> Outcome:
    begun_at = held.alert.starts_at
    since = begun_at - timedelta(seconds=moment.limits.flap_seconds)
    # By starts and not by now, so that a step taken again decides alike.
    starts = (*(start for start in held.past.starts if start > since), begun_at)
    alert = msgspec.structs.replace(
        held.alert, state=AlertState.FIRING, is_flapping=len(starts) >= moment.limits.flap_count
    )
    past = msgspec.structs.replace(held.past, starts=starts[-moment.limits.flap_count :])
    firing = msgspec.structs.replace(held, alert=alert, past=past, since=moment.now)
    if moment.muted_by:
        return _muted(firing, moment)
    return _tell(firing, moment)


def _told_again(held: AlertInstance, rule: RuleSettings, moment: EvaluationMoment) -> Outcome:
    alert = held.alert
    if moment.muted_by != alert.muted_by and moment.muted_by:
        return _muted(held, moment)
    was_silenced = is_silenced(alert.muted_by) and not moment.muted_by
    if alert.muted_by and not moment.muted_by:
        alert = msgspec.structs.replace(alert, muted_by=())
        held = msgspec.structs.replace(held, alert=alert)
    if moment.muted_by or not held.is_wrong:
        return held, (), ""
    if not alert.is_told:
        return _tell(held, moment)
    told_at = alert.told_at or held.since
    is_time = 0 < rule.repeat_seconds <= (moment.now - told_at).total_seconds()
    if was_silenced or is_time:
        return _remind(held, moment)
    return held, (), ""


def _muted(held: AlertInstance, moment: EvaluationMoment) -> Outcome:
    """Note by what it is held back. That a silence begins is told, once for each beginning."""
    begins = is_silenced(moment.muted_by) and not is_silenced(held.alert.muted_by)
    alert = msgspec.structs.replace(held.alert, muted_by=moment.muted_by)
    number = held.silenced + begins
    held = msgspec.structs.replace(held, alert=alert, silenced=number)
    if not begins:
        return held, (), "muted"
    told = Transition(transition="silenced", alert=alert, occurred_at=moment.as_of, number=number)
    return held, (told,), "silenced"


def _tell(held: AlertInstance, moment: EvaluationMoment) -> Outcome:
    transition = "flapping" if held.alert.is_flapping else "fired"
    alert = msgspec.structs.replace(held.alert, is_told=True, told_at=moment.now, muted_by=())
    told = Transition(transition=transition, alert=alert, occurred_at=alert.starts_at)
    return msgspec.structs.replace(held, alert=alert), (told,), transition


def _remind(held: AlertInstance, moment: EvaluationMoment) -> Outcome:
    number = held.alert.reminders + 1
    alert = msgspec.structs.replace(held.alert, told_at=moment.now, reminders=number)
    told = Transition(transition="reminded", alert=alert, occurred_at=moment.as_of, number=number)
    return msgspec.structs.replace(held, alert=alert), (told,), "reminded"


def is_silenced(muted_by: tuple[str, ...]) -> bool:
    return any(text.startswith(_SILENCE) for text in muted_by)


def _not_of_the_future(held: AlertInstance, now: datetime) -> AlertInstance:
    """Where our clock was set back over a restart, what was noted under it counts from now."""
    told_at = held.alert.told_at
    if told_at is not None and told_at > now:
        held = msgspec.structs.replace(held, alert=msgspec.structs.replace(held.alert, told_at=now))
    if held.quiet_since is not None and held.quiet_since > now:
        held = msgspec.structs.replace(held, quiet_since=now)
    return msgspec.structs.replace(held, since=now) if held.since > now else held
