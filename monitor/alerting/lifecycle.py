"""What becomes of an episode. Pure: no I/O and no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.settings.rules import RuleSettings
from monitor.alerting.verdicts import Right, Unclear, Verdict, Wrong
from monitor.model.alerts import Alert, AlertState


class Flap(Struct, frozen=True, kw_only=True):
    count: int = 3
    seconds: float = 3_600.0


class Past(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a fingerprint between its episodes; kept as long as the log keeps its ids."""

    last_end: datetime | None = None
    starts: tuple[datetime, ...] = ()


class Episode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    alert: Alert
    past: Past = Past()
    clear_since: datetime | None = None
    is_wrong: bool = True


class Telling(Struct, frozen=True, kw_only=True):
    transition: str
    alert: Alert
    occurred_at: datetime | None
    number: int = 0


Outcome = tuple[Episode | Past, tuple[Telling, ...], str]


def judge(
    held: Episode | Past,
    verdict: Verdict,
    fresh: Alert,
    rule: RuleSettings,
    *,
    now: datetime,
    muted_by: tuple[str, ...],
    flap: Flap,
) -> Outcome:
    """``fresh`` is the alert as it would begin now, its start taken from the evidence."""
    if isinstance(verdict, Unclear):
        return held, (), "unclear"
    if isinstance(verdict, Right):
        return _right(held, verdict)
    return _wrong(held, verdict, fresh, rule, now=now, muted_by=muted_by, flap=flap)


def _right(held: Episode | Past, verdict: Right) -> Outcome:
    if isinstance(held, Past) or held.alert.state is AlertState.RESOLVED:
        return held, (), "nothing was wrong"
    if held.alert.state is AlertState.PENDING:
        return held.past, (), "it was over before its time"
    if held.alert.is_flapping:
        clear = held.clear_since or verdict.at
        return msgspec.structs.replace(held, clear_since=clear, is_wrong=False), (), "flapping"
    return end(held, verdict.at)


def end(held: Episode, at: datetime) -> Outcome:
    alert = msgspec.structs.replace(
        held.alert, state=AlertState.RESOLVED, ends_at=max(at, held.alert.starts_at)
    )
    past = Past(last_end=alert.ends_at, starts=held.past.starts)
    if not alert.is_told:
        return past, (), "nobody had been told"
    episode = Episode(alert=alert, past=past, is_wrong=False)
    return episode, (Telling(transition="resolved", alert=alert, occurred_at=at),), "resolved"


def _wrong(
    held: Episode | Past,
    verdict: Wrong,
    fresh: Alert,
    rule: RuleSettings,
    *,
    now: datetime,
    muted_by: tuple[str, ...],
    flap: Flap,
) -> Outcome:
    if isinstance(held, Episode) and held.alert.state is AlertState.FIRING:
        return _evidence(held, verdict), (), "deduplicated"
    if isinstance(held, Past):
        held = _begun(held, fresh)
    elif held.alert.state is AlertState.RESOLVED:
        held = _begun(held.past, fresh)
    if (verdict.as_of - held.alert.starts_at).total_seconds() < rule.for_seconds:
        return held, (), "pending"
    begun_at = held.alert.starts_at
    since = begun_at - timedelta(seconds=flap.seconds)
    starts = (*(one for one in held.past.starts if one > since), begun_at)
    is_flapping = len(starts) >= flap.count
    alert = msgspec.structs.replace(
        held.alert, state=AlertState.FIRING, is_flapping=is_flapping, muted_by=muted_by
    )
    past = msgspec.structs.replace(held.past, starts=starts)
    episode = msgspec.structs.replace(held, alert=alert, past=past, is_wrong=True)
    if muted_by:
        return episode, (), "muted"
    return tell(episode, "flapping" if is_flapping else "fired", verdict.as_of, now)


def _begun(past: Past, fresh: Alert) -> Episode:
    """Return a pending episode. Two episodes never have one start, or their ids were one."""
    starts_at = fresh.starts_at
    if past.last_end is not None:
        starts_at = max(starts_at, past.last_end + timedelta(microseconds=1))
    alert = msgspec.structs.replace(fresh, state=AlertState.PENDING, starts_at=starts_at)
    return Episode(alert=alert, past=past)


def _evidence(held: Episode, verdict: Wrong) -> Episode:
    new = [one for one in verdict.evidence if one not in held.alert.evidence]
    alert = msgspec.structs.replace(
        held.alert,
        evidence=(*held.alert.evidence, *new)[-50:],
        evidence_count=held.alert.evidence_count + len(new),
    )
    return msgspec.structs.replace(held, alert=alert, clear_since=None, is_wrong=True)


def tell(held: Episode, transition: str, at: datetime, now: datetime) -> Outcome:
    alert = msgspec.structs.replace(held.alert, is_told=True, told_at=now)
    telling = Telling(transition=transition, alert=alert, occurred_at=at)
    return msgspec.structs.replace(held, alert=alert), (telling,), transition
