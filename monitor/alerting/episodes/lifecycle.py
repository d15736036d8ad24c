"""What becomes of an episode, by verdicts and by time. Pure: no I/O and no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.settings.rules import RuleSettings
from monitor.alerting.verdicts import Right, Unclear, Verdict, Wrong
from monitor.model.alerts import Alert, AlertState
from monitor.model.runs import RunKey

_EVIDENCE_KEPT = 50
_SILENCE = "silence:"


class Pace(Struct, frozen=True, kw_only=True):
    """How quickly changes count as flapping, and how long what is over is still shown."""

    flap_count: int = 3
    flap_seconds: float = 3_600.0
    resolved_kept_seconds: float = 3_600.0


class Moment(Struct, frozen=True, kw_only=True):
    """When something is judged, and what holds it back then.

    ``now`` is ours and moved by no jump of the wall clock. ``as_of`` is how far the clock of what
    is judged is known wholly, None where it is not known now; it does not matter where ``is_ours``.
    """

    now: datetime
    as_of: datetime | None
    is_ours: bool = False
    muted_by: tuple[str, ...] = ()
    pace: Pace = Pace()
    is_heard: bool = False  # an event brought it, so what it says is news


class Past(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a fingerprint between its episodes; kept as long as the log keeps its ids."""

    last_end: datetime | None = None
    starts: tuple[datetime, ...] = ()  # of what fired lately


class Episode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert and what its next step depends on. ``since`` and ``quiet_since`` are ours."""

    alert: Alert
    since: datetime  # when its state changed last
    past: Past = Past()
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


class Telling(Struct, frozen=True, kw_only=True):
    """Something that is to be told. ``number`` counts transitions that may recur."""

    transition: str
    alert: Alert
    occurred_at: datetime | None
    number: int = 0


Held = Episode | Past
Outcome = tuple[Held, tuple[Telling, ...], str]  # the last is the step's word, for `explain`


def judge(
    held: Held, verdict: Verdict, fresh: Alert, rule: RuleSettings, moment: Moment
) -> Outcome:
    """``fresh`` is the alert as it would begin now, its start taken from the evidence."""
    if isinstance(verdict, Right):
        return _right(held, verdict, moment)
    if isinstance(verdict, Unclear):
        return (_in_doubt(held) if isinstance(held, Episode) else held), (), "unclear"
    return _wrong(held, verdict, fresh, rule, moment)


def pass_time(held: Episode, rule: RuleSettings, moment: Moment) -> Outcome:
    """What time alone brings: firing at last, reminders, ends of silences, quiet, forgetting."""
    held = _not_of_the_future(held, moment.now)
    age_seconds = (moment.now - held.since).total_seconds()
    if held.alert.state is AlertState.RESOLVED:
        is_over = age_seconds >= moment.pace.resolved_kept_seconds
        return (held.past if is_over else held), (), ""
    if held.alert.state is AlertState.PENDING:
        if held.is_wrong and _is_due(held, rule, moment):
            return _fire(held, moment)
        return held, (), ""
    if held.quiet_since is not None and held.clear_since is not None:
        quiet_seconds = (moment.now - held.quiet_since).total_seconds()
        if quiet_seconds >= moment.pace.flap_seconds / 2:
            return end(held, held.clear_since, now=moment.now)
    return _told_again(held, rule, moment)


def wakes_at(held: Episode, rule: RuleSettings, pace: Pace) -> datetime | None:
    """Return until when `pass_time` makes nothing of it, if meanwhile nothing holds it back.

    None: time alone never does.
    """
    alert = held.alert
    if alert.state is AlertState.RESOLVED:
        return held.since + timedelta(seconds=pace.resolved_kept_seconds)
    if alert.state is AlertState.PENDING:
        return held.since + timedelta(seconds=rule.for_seconds) if held.is_wrong else None
    if alert.muted_by or (held.is_wrong and not alert.is_told):
        return held.since
    times: list[datetime] = []
    if held.quiet_since is not None and held.clear_since is not None:
        times.append(held.quiet_since + timedelta(seconds=pace.flap_seconds / 2))
    if held.is_wrong and rule.repeat_seconds > 0:
        times.append((alert.told_at or held.since) + timedelta(seconds=rule.repeat_seconds))
    return min(times, default=None)


def end(held: Episode, at: datetime, *, now: datetime, reason: str | None = None) -> Outcome:
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
    past = Past(last_end=alert.ends_at, starts=held.past.starts)
    if not alert.is_told:
        return past, (), "nobody had been told"
    episode = Episode(alert=alert, since=now, past=past, is_wrong=False)
    told = Telling(transition="resolved", alert=alert, occurred_at=alert.ends_at)
    return episode, (told,), "resolved"


def _right(held: Held, verdict: Right, moment: Moment) -> Outcome:
    if isinstance(held, Past):
        return held, (), "nothing was wrong"
    is_flapping = held.alert.state is AlertState.FIRING and held.alert.is_flapping
    if verdict.reason is not None or not is_flapping:
        return end(held, verdict.at, now=moment.now, reason=verdict.reason)
    if held.clear_since is not None:
        return held, (), "flapping"
    quiet = msgspec.structs.replace(
        held, clear_since=verdict.at, quiet_since=moment.now, is_wrong=False
    )
    return quiet, (), "flapping"


def _wrong(held: Held, verdict: Wrong, fresh: Alert, rule: RuleSettings, moment: Moment) -> Outcome:
    if isinstance(held, Past):
        held = _begun(held, fresh, moment.now)
    elif held.alert.state is AlertState.RESOLVED:
        held = _begun(held.past, fresh, moment.now)
    else:
        held = with_evidence(held, verdict, fresh, is_news=moment.is_heard)
    if held.alert.state is AlertState.FIRING:
        return held, (), "deduplicated" if held.alert.is_told else "muted"
    if not _is_due(held, rule, moment):
        return held, (), "pending"
    return _fire(held, moment)


def _begun(past: Past, fresh: Alert, now: datetime) -> Episode:
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
    return Episode(alert=alert, since=now, past=past)


def with_evidence(held: Episode, verdict: Wrong, fresh: Alert, *, is_news: bool) -> Episode:
    """Return the episode with what the verdict adds to it; itself where that is nothing."""
    alert = held.alert
    told = verdict.evidence[-_EVIDENCE_KEPT:]
    new = tuple(one for one in told if one not in alert.evidence)
    if new or is_news:
        evidence = (*alert.evidence, *new)
        if len(evidence) > _EVIDENCE_KEPT:
            # What is no evidence now goes first, or the rest would be new again with each look.
            evidence = tuple(sorted(evidence, key=told.__contains__)[-_EVIDENCE_KEPT:])
        alert = msgspec.structs.replace(
            alert,
            evidence=evidence,
            evidence_count=alert.evidence_count + len(new),
            facts={**alert.facts, **verdict.facts},
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
        newest_run=(verdict.run if new else None) or held.newest_run,
    )


def with_facts(held: Episode, facts: dict[str, str | float | None], fresh: Alert) -> Episode:
    """Return the episode with other facts, and what is said with them."""
    alert = msgspec.structs.replace(held.alert, facts=facts, annotations=fresh.annotations)
    return msgspec.structs.replace(held, alert=alert)


def _in_doubt(held: Episode) -> Episode:
    if held.alert.state is AlertState.RESOLVED or not held.is_wrong:
        return held
    return msgspec.structs.replace(held, is_wrong=False)


def _is_due(held: Episode, rule: RuleSettings, moment: Moment) -> bool:
    """True once it has been so for long enough, by our time and by what is known of theirs."""
    if rule.for_seconds <= 0:
        return True
    lasting = timedelta(seconds=rule.for_seconds)
    if moment.now - held.since < lasting:
        return False
    is_known = moment.as_of is not None and moment.as_of - held.alert.starts_at >= lasting
    return moment.is_ours or is_known


def _fire(held: Episode, moment: Moment) -> Outcome:
    begun_at = held.alert.starts_at
    since = begun_at - timedelta(seconds=moment.pace.flap_seconds)
    # By starts and not by now, so that a step taken again decides alike.
    starts = (*(one for one in held.past.starts if one > since), begun_at)
    alert = msgspec.structs.replace(
        held.alert, state=AlertState.FIRING, is_flapping=len(starts) >= moment.pace.flap_count
    )
    past = msgspec.structs.replace(held.past, starts=starts[-moment.pace.flap_count :])
    firing = msgspec.structs.replace(held, alert=alert, past=past, since=moment.now)
    if moment.muted_by:
        return _muted(firing, moment)
    return _tell(firing, moment)


def _told_again(held: Episode, rule: RuleSettings, moment: Moment) -> Outcome:
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


def _muted(held: Episode, moment: Moment) -> Outcome:
    """Note by what it is held back. That a silence begins is told, once for each beginning."""
    begins = is_silenced(moment.muted_by) and not is_silenced(held.alert.muted_by)
    alert = msgspec.structs.replace(held.alert, muted_by=moment.muted_by)
    number = held.silenced + begins
    held = msgspec.structs.replace(held, alert=alert, silenced=number)
    if not begins:
        return held, (), "muted"
    told = Telling(transition="silenced", alert=alert, occurred_at=moment.as_of, number=number)
    return held, (told,), "silenced"


def _tell(held: Episode, moment: Moment) -> Outcome:
    transition = "flapping" if held.alert.is_flapping else "fired"
    alert = msgspec.structs.replace(held.alert, is_told=True, told_at=moment.now, muted_by=())
    told = Telling(transition=transition, alert=alert, occurred_at=alert.starts_at)
    return msgspec.structs.replace(held, alert=alert), (told,), transition


def _remind(held: Episode, moment: Moment) -> Outcome:
    number = held.alert.reminders + 1
    alert = msgspec.structs.replace(held.alert, told_at=moment.now, reminders=number)
    told = Telling(transition="reminded", alert=alert, occurred_at=moment.as_of, number=number)
    return msgspec.structs.replace(held, alert=alert), (told,), "reminded"


def is_silenced(muted_by: tuple[str, ...]) -> bool:
    return any(one.startswith(_SILENCE) for one in muted_by)


def _not_of_the_future(held: Episode, now: datetime) -> Episode:
    """Where our clock was set back over a restart, what was noted under it counts from now."""
    told_at = held.alert.told_at
    if told_at is not None and told_at > now:
        held = msgspec.structs.replace(held, alert=msgspec.structs.replace(held.alert, told_at=now))
    if held.quiet_since is not None and held.quiet_since > now:
        held = msgspec.structs.replace(held, quiet_since=now)
    return msgspec.structs.replace(held, since=now) if held.since > now else held
