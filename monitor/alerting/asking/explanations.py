"""Why somebody was told something, or nothing: from what was seen to what was delivered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from monitor.alerting.settings.rules import RuleSettings
from monitor.alerting.trail import Evaluation
from monitor.bus.contract import DeadLetter, Recorded
from monitor.model.alerts import Alert, AlertState, Silence
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import RunState


class Stage(StrEnum):
    """The stations between a run and a person, in their order."""

    SIGHTING = "sighting"
    EVENT = "event"
    RULE = "rule"
    ALERT = "alert"
    DELIVERY = "delivery"


class Word(StrEnum):
    """What a station did. Those of `SWALLOWED` end the way to a person."""

    SEEN = "seen"
    RECORDED = "recorded"
    FOUND = "found wrong"
    TOLD = "told"
    DELIVERED = "delivered"
    RESOLVED = "resolved"
    NOT_FOR_OUTPUT = "not for this output"
    INSIDE = "inside another run"
    HISTORICAL = "historical"
    NO_EVENT = "no event"
    NO_MATCHING_RULE = "no matching rule"
    NOT_WRONG = "nothing wrong by this rule"
    UNCLEAR = "unclear"
    RAISED = "the rule raised"
    NOT_JUDGED = "not judged yet"
    PENDING = "pending"
    MUTED = "muted"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    DEDUPLICATED = "deduplicated"
    WAITING = "waiting in an output"
    REFUSED = "refused by an output"


# From the first station to the last: of several rules, the one that came farthest answers.
SWALLOWED = (
    Word.HISTORICAL,
    Word.NO_EVENT,
    Word.NO_MATCHING_RULE,
    Word.NOT_WRONG,
    Word.UNCLEAR,
    Word.RAISED,
    Word.NOT_JUDGED,
    Word.PENDING,
    Word.MUTED,
    Word.INHIBITED,
    Word.SILENCED,
    Word.DEDUPLICATED,
    Word.WAITING,
    Word.REFUSED,
)


_TOLD = (Word.TOLD, Word.RESOLVED)
_DELIVERED = Word.DELIVERED
# By words of evaluations. What a look has found is about the subject, and not about this run.
_LOOKED = {"unclear": Word.UNCLEAR, "raised": Word.RAISED}
_HEARD = {
    **_LOOKED,
    "postponed": Word.PENDING,
    "pending": Word.PENDING,
    "muted": Word.MUTED,
    "silenced": Word.SILENCED,
    "deduplicated": Word.DEDUPLICATED,
    "fired": Word.TOLD,
    "flapping": Word.TOLD,
}
_NOTHING = ("no verdict", "nothing was wrong")


class Step(Struct, frozen=True, kw_only=True):
    """One station. ``detail`` is a sentence for people; instants in it are UTC."""

    stage: Stage
    word: Word
    detail: str
    at: datetime | None = None
    rule: str | None = None
    fingerprint: str | None = None
    output: str | None = None
    event: str | None = None  # its id


class Explanation(Struct, frozen=True, kw_only=True):
    """``swallowed_by`` is None where somebody was told, and every output has it."""

    about: str
    answer: str
    swallowed_by: Word | None
    steps: tuple[Step, ...]
    alerts: tuple[Alert, ...] = ()


class Asked(Struct, frozen=True, kw_only=True):
    """One rule and one run: what is known of how the one judged the other."""

    rule: RuleSettings
    misfit: str | None = None  # the field of the match that does not fit, as a sentence
    fingerprint: str = ""
    alert: Alert | None = None  # the episode that took an event of the run as evidence
    ended_word: str = ""  # how that episode ended, where nobody had been told of it
    heard: Evaluation | None = None  # what the rule said to an event of the run
    looked: Evaluation | None = None  # what it said when it last looked by itself
    hears: tuple[str, ...] = ()  # the types of events that the rule is asked about
    is_behind: bool = False  # alerting has not come to the run's newest event


class Receiver(Struct, frozen=True, kw_only=True):
    """An output, how far it has come, and what it takes."""

    name: str
    position: int
    wants: Callable[[Event], bool]
    dead_letters: tuple[DeadLetter, ...] = ()


def sighting_steps(run: RunState) -> list[Step]:
    """Say what is kept of the looks at a run: single sightings are not."""
    seen = [f"last confirmed by {run.confirmed_by} as {run.status}"]
    if run.native_status is not None:
        seen.append(f"the workspace's word is {run.native_status!r}")
    if run.ended_by is not None:
        seen.append(f"its end was told by {run.ended_by}")
    if run.is_called_back:
        seen.append("a callback told something of it")
    if run.contradiction is not None:
        seen.append(f"another end was told later and was not taken: {run.contradiction!r}")
    steps = [Step(stage=Stage.SIGHTING, word=Word.SEEN, at=run.confirmed_at, detail=_joined(seen))]
    if run.historical:
        detail = "it had ended before the monitor followed this workspace: state only, no event"
        steps.append(Step(stage=Stage.EVENT, word=Word.HISTORICAL, detail=detail))
    return steps


def event_step(recorded: Recorded) -> Step:
    """Say when an event happened, when it was recorded, and who noticed."""
    event = recorded.event
    told = [f"position {recorded.position} of the log"]
    if isinstance(event, RunEvent):
        told.insert(0, f"noticed by {event.observed_by}")
    if event.occurred_at is not None:
        lag = (event.recorded_at - event.occurred_at).total_seconds()
        told.append(f"happened {instant(event.occurred_at)}, {lag:.1f} s before")
    alert = event.alert if isinstance(event, AlertEvent) else None
    # That somebody silenced an alert is an event too, and tells nobody of the alert.
    is_telling = alert is not None and event.type is not EventType.ALERT_SILENCED
    return Step(
        stage=Stage.EVENT if alert is None else Stage.ALERT,
        word=Word.TOLD if is_telling else Word.RECORDED,
        at=event.recorded_at,
        detail=f"{event.type}: {_joined(told)}",
        rule=None if alert is None else alert.name,
        fingerprint=None if alert is None else alert.fingerprint,
        event=event.id,
    )


def rule_step(asked: Asked, ids: Collection[str] | None, silences: Mapping[str, Silence]) -> Step:
    """Say what one rule made of a run whose events have those ``ids``.

    None: no run is asked for, so nothing is more evidence of what was told.
    """
    if asked.misfit is not None:
        return _step(asked, Word.NO_MATCHING_RULE, asked.misfit)
    if asked.alert is None:
        return _without_alert(asked)
    word, detail = standing(asked.alert, asked.rule, silences, ended_word=asked.ended_word)
    is_told = word in _TOLD
    is_more = ids is not None and not _is_first(asked.alert, ids)
    if is_told and asked.alert.evidence_count > 1 and is_more:
        word = Word.DEDUPLICATED
        detail = (
            f"the alert was told already, at {instant(asked.alert.starts_at)}; "
            f"this is more evidence of it ({asked.alert.evidence_count} in all)"
        )
    return _step(asked, word, detail)


def standing(
    alert: Alert,
    rule: RuleSettings | None,
    silences: Mapping[str, Silence],
    *,
    ended_word: str = "",
) -> tuple[Word, str]:
    """Say how an episode stands, and what holds it back if nobody was told."""
    since = f"so since {instant(alert.starts_at)}"
    if alert.is_told:
        return _told(alert, since)
    if alert.muted_by:
        return _held_back(alert, silences)
    if ended_word:
        return Word.PENDING, f"{since}; {ended_word}"
    if alert.state is AlertState.PENDING:
        return Word.PENDING, f"{since}; {_due(alert, rule)}"
    return Word.NOT_JUDGED, f"{since}; nobody was told yet"


def delivery_steps(told: Sequence[Recorded], receivers: Sequence[Receiver]) -> list[Step]:
    """Say for each event and output whether it went out."""
    return [_delivery(one, receiver) for one in told for receiver in receivers]


def answer(about: str, steps: Sequence[Step]) -> tuple[str, Word | None]:
    """Return the sentence that answers, and what swallowed the telling, if anything did."""
    on_the_way = [one for one in steps if one.stage is not Stage.DELIVERY]
    # Not the events of alerts: what they tell may be of others that failed before.
    if any(one.event is None and one.word in _TOLD for one in on_the_way):
        return _answer_told(about, steps)
    swallowing = [one for one in on_the_way if one.word in SWALLOWED]
    if not swallowing:
        return f"{about} has reached no rule", Word.NOT_JUDGED
    last = max(swallowing, key=lambda one: SWALLOWED.index(one.word))
    if last.word is Word.NOT_WRONG:
        return f"{about} was not told: no rule found anything wrong with it", last.word
    if last.word is Word.NO_MATCHING_RULE:
        return f"{about} was not told: no rule matches it", last.word
    rule = f"rule {last.rule}: " if last.rule else ""
    return f"{about} was not told: {last.word}: {rule}{last.detail}", last.word


def _answer_told(about: str, steps: Sequence[Step]) -> tuple[str, Word | None]:
    # Deliveries of the run's own events are shown, and are no alert.
    out = [one for one in steps if one.stage is Stage.DELIVERY and _is_alerts(one)]
    held_up = [one for one in out if one.word in SWALLOWED]
    if held_up:
        return f"{about} was told, and {held_up[-1].detail}", held_up[-1].word
    outputs = ", ".join(dict.fromkeys(one.output or "" for one in out if one.word is _DELIVERED))
    way = f"through {outputs}" if outputs else "by an event only: no output takes alerts"
    return f"{about} was told {way}", None


def _is_alerts(step: Step) -> bool:
    return step.event is not None and step.event.startswith("alert:")


def instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _without_alert(asked: Asked) -> Step:
    if asked.is_behind:
        return _step(asked, Word.NOT_JUDGED, "alerting has not come to its newest event yet")
    if asked.heard is not None:
        word = _HEARD.get(asked.heard.word, Word.NOT_WRONG)
        return _step(asked, word, f"asked at {_said(asked.heard)}")
    if asked.looked is not None:
        word = _LOOKED.get(asked.looked.word, Word.NOT_WRONG)
        return _step(asked, word, f"looked at {_said(asked.looked)}")
    hears = ", ".join(asked.hears) or "nothing: it looks by itself"
    return _step(asked, Word.NOT_WRONG, f"nothing is known that it found wrong; hears {hears}")


def _said(one: Evaluation) -> str:
    found = "found nothing wrong" if one.word in _NOTHING else one.word
    return f"{instant(one.at)}: {found}" + (f" ({one.detail})" if one.detail else "")


def _is_first(alert: Alert, ids: Collection[str]) -> bool:
    # Only the newest ones are kept: once the first has left, no run is the first any more.
    is_whole = alert.evidence_count == len(alert.evidence)
    return is_whole and bool(alert.evidence) and alert.evidence[0] in ids


def _told(alert: Alert, since: str) -> tuple[Word, str]:
    told = [since]
    if alert.told_at is not None:
        told.append(f"last told {instant(alert.told_at)}")
    if alert.is_flapping:
        told.append("it comes and goes, so it was told once as flapping")
    if alert.was_there:
        told.append("it was so already when the rule was judged for the first time")
    if alert.muted_by:
        told.append(f"now held back by {', '.join(alert.muted_by)}")
    if alert.state is AlertState.RESOLVED:
        return Word.RESOLVED, _joined([*told, f"over since {_or_unknown(alert.ends_at)}"])
    return Word.TOLD, _joined(told)


def _held_back(alert: Alert, silences: Mapping[str, Silence]) -> tuple[Word, str]:
    # The first reason is the one that counts; all are told.
    kind = alert.muted_by[0].partition(":")[0]
    word = {"silence": Word.SILENCED, "inhibited": Word.INHIBITED}.get(kind, Word.MUTED)
    return word, _joined([_reason(one, silences) for one in alert.muted_by])


def _reason(muted_by: str, silences: Mapping[str, Silence]) -> str:
    kind, _, name = muted_by.partition(":")
    if kind == "inhibited":
        return f"alert {name} explains it"
    if kind != "silence":
        return "within the rule's mute times"
    silence = silences.get(name)
    if silence is None:
        return f"silence {name}, which is over"
    matchers = ", ".join(silence.matchers)
    until = instant(silence.ends_at)
    return f"silence {name} of {silence.author} until {until} ({matchers}): {silence.comment}"


def _due(alert: Alert, rule: RuleSettings | None) -> str:
    if rule is None:
        return "its rule is gone"
    due = alert.starts_at + timedelta(seconds=rule.for_seconds)
    return f"it is told when it lasts for {rule.for_seconds:g} s, at {instant(due)}"


def _delivery(recorded: Recorded, receiver: Receiver) -> Step:
    event = recorded.event
    word, detail = Word.DELIVERED, f"{event.type} was acknowledged"
    letters = {one.position: one for one in receiver.dead_letters}
    if not receiver.wants(event):
        word, detail = Word.NOT_FOR_OUTPUT, f"{event.type} is nothing for {receiver.name}"
    elif recorded.position in letters:
        reason = letters[recorded.position].reason
        word, detail = Word.REFUSED, f"{receiver.name} refused {event.type} for good: {reason}"
    elif receiver.position < recorded.position:
        ahead = recorded.position - receiver.position - 1
        word, detail = Word.WAITING, f"{event.type} waits in {receiver.name}, {ahead} before it"
    return Step(
        stage=Stage.DELIVERY, word=word, detail=detail, output=receiver.name, event=event.id
    )


def _step(asked: Asked, word: Word, detail: str) -> Step:
    return Step(
        stage=Stage.RULE,
        word=word,
        detail=detail,
        rule=asked.rule.name,
        fingerprint=asked.fingerprint or None,
    )


def _joined(said: Sequence[str]) -> str:
    return "; ".join(said)


def _or_unknown(at: datetime | None) -> str:
    return "an unknown time" if at is None else instant(at)
