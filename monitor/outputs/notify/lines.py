"""Lines of messages, one for each alert or run: words, facts and links. Pure.

A line is made when it is sent, of the newest event in its group and of what is known then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.model.alert_texts import texts_of
from monitor.model.alerts import ENDED_BECAUSE, Acknowledgement, Alert, AlertState, Severity
from monitor.model.events import AlertEvent, EventType, RunEvent
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import PipelineKind, RunState
from monitor.model.words import clock_time, duration, kind_words

_LONGEST = 300  # characters of a name or reason in a message
_WORDS: Mapping[str, str] = {
    "run_failed": "FAILED",
    "failing_repeatedly": "KEEPS FAILING",
    "run_overdue": "OVERDUE",
    "run_stuck": "STUCK",
    "run_lost": "LOST",
    "schedule_missed": "NOT STARTED",
    "workspace_unreachable": "NO ANSWER",
}
_RUN_WORDS: Mapping[EventType, str] = {
    EventType.RUN_STARTED: "STARTED",
    EventType.RUN_SUCCEEDED: "SUCCEEDED",
    EventType.RUN_FAILED: "FAILED",
    EventType.RUN_CANCELED: "CANCELED",
    EventType.RUN_CORRECTED: "CORRECTED",
}
_WORST = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_MORNING_HOUR = 8  # in the channel's zone, of the next day


class Fact(Struct, frozen=True):
    """One fact with its name, both for people."""

    name: str
    value: str


class Link(Struct, frozen=True):
    """A link to our page or to the product."""

    words: str
    url: str


class Line(Struct, frozen=True, kw_only=True):
    """One alert or run in a message.

    ``word`` says its state without colour; ``rank`` orders lines, the worst first.
    """

    word: str
    is_over: bool
    rank: int
    name: str  # of the pipeline; of the workspace where it is about that as a whole
    workspace: str
    reason: str  # one short sentence, or nothing
    text: str  # the description, as its rule is configured
    facts: tuple[Fact, ...] = ()
    links: tuple[Link, ...] = ()


class LineContext(Struct, frozen=True, kw_only=True):
    """What is known beside an event when its message is written.

    ``now`` is by the clock of its subject. ``page_url`` None: there are no links to our page.
    """

    now: datetime
    zone: ZoneInfo
    page_url: str | None
    health: PipelineHealth | None = None
    next_start: datetime | None = None


def line_of(event: AlertEvent | RunEvent, context: LineContext) -> Line:
    """Return what the event says now."""
    if isinstance(event, AlertEvent):
        return _line_of_alert(event, context)
    return _line_of_run(event, context)


def one_line(text: str, *, most: int = _LONGEST) -> str:
    """Return a text of others without line ends and characters that cannot be seen."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def _line_of_alert(event: AlertEvent, context: LineContext) -> Line:
    alert = event.alert
    texts = texts_of(alert, context.now, is_kept=True, zone=context.zone)
    summary, text = (texts.get(name, "") for name in ("summary", "description"))
    error = alert.facts.get("error")
    text = text or summary
    reason = error if isinstance(error, str) and error else text
    return Line(
        word=_word(event),
        is_over=alert.state is AlertState.RESOLVED,
        rank=_WORST[alert.severity] + (len(_WORST) if alert.state is AlertState.RESOLVED else 0),
        name=one_line(alert.labels.get("pipeline") or alert.workspace),
        workspace=alert.workspace,
        reason=one_line(_acknowledgement(event) or reason),
        text=_lines(text if reason in text else f"{text}\n{reason}"),
        facts=tuple(_facts_of_alert(alert, context)),
        links=tuple(_links_of_alert(alert, context)),
    )


def _acknowledgement(event: AlertEvent) -> str | None:
    by = event.alert.acknowledged
    if by is None or event.type is not EventType.ALERT_ACKNOWLEDGED:
        return None
    return f"by {by.author}: {by.comment}" if by.comment else f"by {by.author}"


def _word(event: AlertEvent) -> str:
    alert = event.alert
    if alert.state is AlertState.RESOLVED:
        return "RESOLVED" if alert.facts.get(ENDED_BECAUSE) is None else "ENDED"
    if event.type is EventType.ALERT_ACKNOWLEDGED:
        return "ACKNOWLEDGED"
    word = _WORDS.get(alert.rule, alert.rule.replace("_", " ").upper())
    if alert.is_flapping:
        return f"{word}, AGAIN AND AGAIN"
    return f"STILL {word}" if event.type is EventType.ALERT_REMINDED else word


def _facts_of_alert(alert: Alert, context: LineContext) -> Iterator[Fact]:
    yield Fact("Since", clock_time(alert.starts_at, context.zone))
    if alert.ends_at is not None:
        lasted = (alert.ends_at - alert.starts_at).total_seconds()
        yield Fact("Until", f"{clock_time(alert.ends_at, context.zone)}, {duration(lasted)} later")
    if isinstance(part := alert.facts.get("part"), str) and part:
        yield Fact("Step", one_line(part))
    if alert.acknowledged is not None:
        yield from _facts_of_acknowledgement(alert, alert.acknowledged, context.zone)
    health = context.health
    if health is not None and alert.ends_at is None:
        if health.consecutive_failures > 1:
            yield Fact("Failed in a row", str(health.consecutive_failures))
        if health.last_success_at is not None:
            yield Fact("Last success", clock_time(health.last_success_at, context.zone))
    owner, trigger = (alert.facts.get(name) for name in ("owner", "trigger"))
    if owner or trigger:
        yield Fact(
            "Started by", one_line(" by ".join(str(word) for word in (trigger, owner) if word))
        )
    if context.next_start is not None:
        yield Fact("Next start", clock_time(context.next_start, context.zone))


def _facts_of_acknowledgement(alert: Alert, by: Acknowledgement, zone: ZoneInfo) -> Iterator[Fact]:
    yield Fact("Acknowledged by", one_line(by.author))
    if by.comment:
        yield Fact("Comment", one_line(by.comment))
    if by.until is not None and alert.ends_at is None:
        yield Fact("No reminders until", clock_time(by.until, zone))


def _links_of_alert(alert: Alert, context: LineContext) -> Iterator[Link]:
    page, run = context.page_url, alert.run
    if page is not None:
        if run is not None:
            yield Link("Run", f"{page}{path('runs', run.workspace, run.kind, run.id)}")
        yield Link("Alert", f"{page}{path('alerts', alert.fingerprint)}")
    if isinstance(url := alert.facts.get("url"), str) and url.startswith(("https://", "http://")):
        yield Link("In the product", one_line(url, most=2_000))
    if page is None:
        return
    yield Link("Why was I told?", f"{page}/explain?{urlencode({'alert': alert.fingerprint})}")
    if alert.state is not AlertState.RESOLVED:
        yield Link("Acknowledge", f"{page}{path('alerts', alert.fingerprint)}/acknowledge")
        matchers = "\n".join(_matchers(alert))
        for words, end in _silence_ends(context):
            yield Link(words, f"{page}/silences/new?{urlencode({'matcher': matchers, **end})}")


def _silence_ends(context: LineContext) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield words, and what the form of silences is filled with."""
    yield "Silence for 1 hour", {"lasts": "1h"}
    yield "for 4 hours", {"lasts": "4h"}
    tomorrow = context.now.astimezone(context.zone) + timedelta(days=1)
    morning = tomorrow.replace(hour=_MORNING_HOUR, minute=0, second=0, microsecond=0)
    ends_at = morning.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    yield "until tomorrow", {"lasts": "until", "ends_at": ends_at}


def _matchers(alert: Alert) -> Iterator[str]:
    for label in ("alertname", "workspace", "kind", "pipeline_id", "schedule", "part"):
        if value := alert.labels.get(label):
            yield f"{label}={value}"


def _line_of_run(event: RunEvent, context: LineContext) -> Line:
    run = event.run
    word = _RUN_WORDS[event.type]
    name = run.pipeline.name or run.pipeline.id if run.pipeline is not None else "unknown"
    return Line(
        word=word,
        is_over=event.type is EventType.RUN_SUCCEEDED,
        rank=0 if event.type is EventType.RUN_FAILED else 2,
        name=one_line(name),
        workspace=run.key.workspace,
        reason=one_line(run.error or ""),
        text=_lines(f"{kind_words(run.key.kind).capitalize()} {run.key.id} {word.lower()}."),
        facts=tuple(_facts_of_run(run, context)),
        links=tuple(_links_of_run(run, context)),
    )


def _facts_of_run(run: RunState, context: LineContext) -> Iterator[Fact]:
    for name, at in (("Started", run.started_at), ("Ended", run.finished_at)):
        if at is not None:
            yield Fact(name, clock_time(at, context.zone))
    if run.status.is_terminal and run.duration_seconds is not None:
        yield Fact("Took", duration(run.duration_seconds))
    words = (run.trigger.value, run.owner)
    yield Fact("Started by", one_line(" by ".join(word for word in words if word)))


def _links_of_run(run: RunState, context: LineContext) -> Iterator[Link]:
    if context.page_url is not None:
        key = run.key
        yield Link("Run", f"{context.page_url}{path('runs', key.workspace, key.kind, key.id)}")
    if run.url is not None and run.url.startswith(("https://", "http://")):
        yield Link("In the product", one_line(run.url, most=2_000))


def path(*parts: str) -> str:
    """Return a path of our page."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def pipeline_of(event: AlertEvent | RunEvent) -> tuple[PipelineKind, str] | None:
    """Return the flow or plan that the event is about; None where it is about none."""
    pipeline = event.alert.pipeline if isinstance(event, AlertEvent) else event.run.pipeline
    return None if pipeline is None else (pipeline.kind, pipeline.id)


def _lines(text: str) -> str:
    """Return a text of several lines, each without what cannot be seen."""
    return "\n".join(one_line(line, most=2_000) for line in text.splitlines()).strip()
