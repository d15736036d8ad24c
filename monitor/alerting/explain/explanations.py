"""Why somebody was told something, or nothing: from what was seen to what was delivered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from monitor.alerting.engine.history import EvaluationRecord
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.bus.contract import DeadLetter, Recorded
from monitor.model.alerts import Alert, AlertState, Silence
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import RunState


class ExplanationStage(StrEnum):
    """The stations between a run and a person, in their order."""

    OBSERVATION = "observation"
    EVENT = "event"
    RULE = "rule"
    ALERT = "alert"
    DELIVERY = "delivery"


class StepOutcome(StrEnum):
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
    StepOutcome.HISTORICAL,
    StepOutcome.NO_EVENT,
    StepOutcome.NO_MATCHING_RULE,
    StepOutcome.NOT_WRONG,
    StepOutcome.UNCLEAR,
    StepOutcome.RAISED,
    StepOutcome.NOT_JUDGED,
    StepOutcome.PENDING,
    StepOutcome.MUTED,
    StepOutcome.INHIBITED,
    StepOutcome.SILENCED,
    StepOutcome.DEDUPLICATED,
    StepOutcome.WAITING,
    StepOutcome.REFUSED,
)


_TOLD = (StepOutcome.TOLD, StepOutcome.RESOLVED)
_DELIVERED = StepOutcome.DELIVERED
# By words of evaluations. What a look has found is about the subject, and not about this run.
_LOOKED = {"unclear": StepOutcome.UNCLEAR, "raised": StepOutcome.RAISED}
_HEARD = {
    **_LOOKED,
    "postponed": StepOutcome.PENDING,
    "pending": StepOutcome.PENDING,
    "muted": StepOutcome.MUTED,
    "silenced": StepOutcome.SILENCED,
    "deduplicated": StepOutcome.DEDUPLICATED,
    "fired": StepOutcome.TOLD,
    "flapping": StepOutcome.TOLD,
}
_NOTHING = ("no verdict", "nothing was wrong")


class ExplanationStep(Struct, frozen=True, kw_only=True):
    """One station. ``detail`` is a sentence for people; instants in it are UTC."""

    stage: ExplanationStage
    word: StepOutcome
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
    swallowed_by: StepOutcome | None
    steps: tuple[ExplanationStep, ...]
    alerts: tuple[Alert, ...] = ()


class RuleQuestion(Struct, frozen=True, kw_only=True):
    """One rule and one run: what is known of how the one judged the other."""

    rule: RuleSettings
    misfit: str | None = None  # the field of the match that does not fit, as a sentence
    fingerprint: str = ""
    alert: Alert | None = None  # the episode that took an event of the run as evidence
    ended_word: str = ""  # how that episode ended, where nobody had been told of it
    heard: EvaluationRecord | None = None  # what the rule said to an event of the run
    looked: EvaluationRecord | None = None  # what it said when it last looked by itself
    event_types: tuple[str, ...] = ()  # the types of events that the rule is asked about
    is_behind: bool = False  # alerting has not come to the run's newest event


class OutputProgress(Struct, frozen=True, kw_only=True):
    """An output, how far it has come, and what it takes."""

    name: str
    position: int
    wants: Callable[[Event], bool]
    dead_letters: tuple[DeadLetter, ...] = ()


def observation_steps(run: RunState) -> list[ExplanationStep]:
    """Say what is kept of the looks at a run: single observations are not."""
    seen = [f"last confirmed by {run.confirmed_by} as {run.status}"]
    if run.native_status is not None:
        seen.append(f"the workspace's word is {run.native_status!r}")
    if run.ended_by is not None:
        seen.append(f"its end was told by {run.ended_by}")
    if run.is_called_back:
        seen.append("a callback told something of it")
    if run.contradiction is not None:
        seen.append(f"another end was told later and was not taken: {run.contradiction!r}")
    steps = [
        ExplanationStep(
            stage=ExplanationStage.OBSERVATION,
            word=StepOutcome.SEEN,
            at=run.confirmed_at,
            detail=_joined(seen),
        )
    ]
    if run.historical:
        detail = "it had ended before the monitor followed this workspace: state only, no event"
        steps.append(
            ExplanationStep(
                stage=ExplanationStage.EVENT, word=StepOutcome.HISTORICAL, detail=detail
            )
        )
    return steps


def event_step(recorded: Recorded) -> ExplanationStep:
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
    return ExplanationStep(
        stage=ExplanationStage.EVENT if alert is None else ExplanationStage.ALERT,
        word=StepOutcome.TOLD if is_telling else StepOutcome.RECORDED,
        at=event.recorded_at,
        detail=f"{event.type}: {_joined(told)}",
        rule=None if alert is None else alert.name,
        fingerprint=None if alert is None else alert.fingerprint,
        event=event.id,
    )


def rule_step(
    asked: RuleQuestion, ids: Collection[str] | None, silences: Mapping[str, Silence]
) -> ExplanationStep:
    """Say what one rule made of a run whose events have those ``ids``.

    None: no run is asked for, so nothing is more evidence of what was told.
    """
    if asked.misfit is not None:
        return _step(asked, StepOutcome.NO_MATCHING_RULE, asked.misfit)
    if asked.alert is None:
        return _without_alert(asked)
    word, detail = status(asked.alert, asked.rule, silences, ended_word=asked.ended_word)
    is_told = word in _TOLD
    is_more = ids is not None and not _is_first(asked.alert, ids)
    if is_told and asked.alert.evidence_count > 1 and is_more:
        word = StepOutcome.DEDUPLICATED
        detail = (
            f"the alert was told already, at {instant(asked.alert.starts_at)}; "
            f"this is more evidence of it ({asked.alert.evidence_count} in all)"
        )
    return _step(asked, word, detail)


def status(
    alert: Alert,
    rule: RuleSettings | None,
    silences: Mapping[str, Silence],
    *,
    ended_word: str = "",
) -> tuple[StepOutcome, str]:
    """Say how an episode stands, and what holds it back if nobody was told."""
    since = f"so since {instant(alert.starts_at)}"
    if alert.is_told:
        return _told(alert, since)
    if alert.muted_by:
        return _held_back(alert, silences)
    if ended_word:
        return StepOutcome.PENDING, f"{since}; {ended_word}"
    if alert.state is AlertState.PENDING:
        return StepOutcome.PENDING, f"{since}; {_due(alert, rule)}"
    return StepOutcome.NOT_JUDGED, f"{since}; nobody was told yet"


def delivery_steps(
    told: Sequence[Recorded], receivers: Sequence[OutputProgress]
) -> list[ExplanationStep]:
    """Say for each event and output whether it went out."""
    return [_delivery(recorded, receiver) for recorded in told for receiver in receivers]


def answer(about: str, steps: Sequence[ExplanationStep]) -> tuple[str, StepOutcome | None]:
    """Return the sentence that answers, and what swallowed the telling, if anything did."""
    on_the_way = [step for step in steps if step.stage is not ExplanationStage.DELIVERY]
    # Not the events of alerts: what they tell may be of others that failed before.
    if any(recorded.event is None and recorded.word in _TOLD for recorded in on_the_way):
        return _answer_told(about, steps)
    swallowing = [item for item in on_the_way if item.word in SWALLOWED]
    if not swallowing:
        return f"{about} has reached no rule", StepOutcome.NOT_JUDGED
    last = max(swallowing, key=lambda item: SWALLOWED.index(item.word))
    if last.word is StepOutcome.NOT_WRONG:
        return f"{about} was not told: no rule found anything wrong with it", last.word
    if last.word is StepOutcome.NO_MATCHING_RULE:
        return f"{about} was not told: no rule matches it", last.word
    rule = f"rule {last.rule}: " if last.rule else ""
    return f"{about} was not told: {last.word}: {rule}{last.detail}", last.word


def _answer_told(about: str, steps: Sequence[ExplanationStep]) -> tuple[str, StepOutcome | None]:
    # Deliveries of the run's own events are shown, and are no alert.
    out = [step for step in steps if step.stage is ExplanationStage.DELIVERY and _is_alerts(step)]
    held_up = [item for item in out if item.word in SWALLOWED]
    if held_up:
        return f"{about} was told, and {held_up[-1].detail}", held_up[-1].word
    outputs = ", ".join(dict.fromkeys(item.output or "" for item in out if item.word is _DELIVERED))
    way = f"through {outputs}" if outputs else "by an event only: no output takes alerts"
    return f"{about} was told {way}", None


def _is_alerts(step: ExplanationStep) -> bool:
    return step.event is not None and step.event.startswith("alert:")


def instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _without_alert(asked: RuleQuestion) -> ExplanationStep:
    if asked.is_behind:
        return _step(asked, StepOutcome.NOT_JUDGED, "alerting has not come to its newest event yet")
    if asked.heard is not None:
        word = _HEARD.get(asked.heard.word, StepOutcome.NOT_WRONG)
        return _step(asked, word, f"asked at {_said(asked.heard)}")
    if asked.looked is not None:
        word = _LOOKED.get(asked.looked.word, StepOutcome.NOT_WRONG)
        return _step(asked, word, f"looked at {_said(asked.looked)}")
    event_types = ", ".join(asked.event_types) or "nothing: it looks by itself"
    return _step(
        asked, StepOutcome.NOT_WRONG, f"nothing is known that it found wrong; hears {event_types}"
    )


def _said(evaluation: EvaluationRecord) -> str:
    found = "found nothing wrong" if evaluation.word in _NOTHING else evaluation.word
    return f"{instant(evaluation.at)}: {found}" + (
        f" ({evaluation.detail})" if evaluation.detail else ""
    )


def _is_first(alert: Alert, ids: Collection[str]) -> bool:
    # Only the newest ones are kept: once the first has left, no run is the first any more.
    is_whole = alert.evidence_count == len(alert.evidence)
    return is_whole and bool(alert.evidence) and alert.evidence[0] in ids


def _told(alert: Alert, since: str) -> tuple[StepOutcome, str]:
    told = [since]
    if alert.told_at is not None:
        told.append(f"last told {instant(alert.told_at)}")
    if alert.is_flapping:
        told.append("it comes and goes, so it was told once as flapping")
    if alert.preexisting:
        told.append("it was so already when the rule was judged for the first time")
    if alert.muted_by:
        told.append(f"now held back by {', '.join(alert.muted_by)}")
    if alert.state is AlertState.RESOLVED:
        return StepOutcome.RESOLVED, _joined([*told, f"over since {_or_unknown(alert.ends_at)}"])
    return StepOutcome.TOLD, _joined(told)


def _held_back(alert: Alert, silences: Mapping[str, Silence]) -> tuple[StepOutcome, str]:
    # The first reason is the one that counts; all are told.
    kind = alert.muted_by[0].partition(":")[0]
    word = {"silence": StepOutcome.SILENCED, "inhibited": StepOutcome.INHIBITED}.get(
        kind, StepOutcome.MUTED
    )
    return word, _joined([_reason(item, silences) for item in alert.muted_by])


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


def _delivery(recorded: Recorded, receiver: OutputProgress) -> ExplanationStep:
    event = recorded.event
    word, detail = StepOutcome.DELIVERED, f"{event.type} was acknowledged"
    letters = {dead_letter.position: dead_letter for dead_letter in receiver.dead_letters}
    if not receiver.wants(event):
        word, detail = StepOutcome.NOT_FOR_OUTPUT, f"{event.type} is nothing for {receiver.name}"
    elif recorded.position in letters:
        reason = letters[recorded.position].reason
        word, detail = (
            StepOutcome.REFUSED,
            f"{receiver.name} refused {event.type} for good: {reason}",
        )
    elif receiver.position < recorded.position:
        ahead = recorded.position - receiver.position - 1
        word, detail = (
            StepOutcome.WAITING,
            f"{event.type} waits in {receiver.name}, {ahead} before it",
        )
    return ExplanationStep(
        stage=ExplanationStage.DELIVERY,
        word=word,
        detail=detail,
        output=receiver.name,
        event=event.id,
    )


def _step(asked: RuleQuestion, word: StepOutcome, detail: str) -> ExplanationStep:
    return ExplanationStep(
        stage=ExplanationStage.RULE,
        word=word,
        detail=detail,
        rule=asked.rule.name,
        fingerprint=asked.fingerprint or None,
    )


def _joined(said: Sequence[str]) -> str:
    return "; ".join(said)


def _or_unknown(at: datetime | None) -> str:
    return "an unknown time" if at is None else instant(at)
