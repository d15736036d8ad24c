"""Makes one message of the events of a group, with what is known when it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from types import MappingProxyType
from typing import TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from monitor.model.alerts import Alert, AlertingSnapshot, Severity
from monitor.model.clock import Clock
from monitor.model.events import AlertEvent, Event, EventType, WorkspaceEvent
from monitor.model.live_state import PipelineHealth
from monitor.model.notifying import NOTIFYING
from monitor.model.report_texts import report_html, report_markdown, report_text
from monitor.model.reports import Report
from monitor.model.runs import RunKind
from monitor.outputs.notify.lines import Line, LineContext, line_of, one_line
from monitor.outputs.notify.selection import Sendable
from monitor.outputs.notify.service import BodyForm, Message, Service, Tone
from monitor.outputs.notify.templates import SHOWN_LINES, Templates, escaped_markdown
from monitor.tracking.live_state import LiveStateView

_SUBJECT_CHARACTERS = 200
E = TypeVar("E", bound=Event)
_Subject = tuple[str, RunKind, str]  # workspace, kind of run, id of flow or plan


class Content(Struct, frozen=True, kw_only=True):
    """What a message says, before a template says it: the worst line first."""

    lines: tuple[Line, ...]  # of a report: none
    tone: Tone
    thread: str
    incident: str
    note: str | None = None
    report: Report | None = None
    is_acknowledgement: bool = False


_REPORT_FORMS: Mapping[BodyForm, Callable[[Report], str]] = MappingProxyType(
    {
        BodyForm.HTML: report_html,
        BodyForm.MARKDOWN: report_markdown,
        BodyForm.TEXT: report_text,
        BodyForm.SHORT: lambda report: report.verdict,
    }
)


class Composer:
    """Gathers what is known of events. Everything but `written` belongs on the event loop."""

    def __init__(
        self,
        *,
        view: LiveStateView,
        alerting: Callable[[], AlertingSnapshot],
        clock: Clock,
        zone: ZoneInfo,
        templates: Templates,
        page_url: str | None,
    ) -> None:
        self._view = view
        self._alerting = alerting
        self._clock = clock
        self._zone = zone
        self._templates = templates
        self._page_url = page_url

    def content(self, events: Sequence[Sendable], *, note: str | None = None) -> Content:
        """Return what is to be said of events in their order; of each alert the newest counts."""
        newest: dict[str, Sendable] = {}
        for event in events:
            newest[event.subject] = newest_of(newest.get(event.subject), event)
        chosen = self._as_known_now(sorted(newest.values(), key=_rank))
        # Beyond what is shown only states are counted: nothing more is looked up for these.
        known = self._health_of(chosen[:SHOWN_LINES])
        lines = [line_of(event, self._context(event, known)) for event in chosen]
        first = chosen[0]
        return Content(
            lines=tuple(sorted(lines, key=lambda line: line.rank)),
            tone=_tone(chosen),
            thread=_thread(first) if len(chosen) == 1 else f"group-{first.workspace}",
            incident=first.subject.removeprefix("alert:"),
            note=note,
            is_acknowledgement=all(event.type is EventType.ALERT_ACKNOWLEDGED for event in chosen),
        )

    @staticmethod
    def report_content(event: WorkspaceEvent, report: Report) -> Content:
        """Return what is to be said of a report that is due."""
        is_well = not (report.failed_and_still_failing or report.did_not_start)
        return Content(
            lines=(),
            tone=Tone.INFO if is_well else Tone.WARNING,
            thread=event.what,
            incident=event.id,
            report=report,
        )

    def written(self, content: Content, service: Service) -> Message:
        """Return the message as the service takes it. Renders templates: for a worker thread."""
        subject = self._subject(content)
        if not service.has_subjects and len(content.lines) == 1:
            subject = ""  # the body begins with the same words
        if not service.has_subjects and service.form is BodyForm.MARKDOWN:
            subject = escaped_markdown(subject)
        form, most = service.form, service.characters - len(subject) - 2
        body = self._body(content, form)
        if len(body) > most and form is not BodyForm.SHORT:
            form = BodyForm.SHORT
            body = self._body(content, form)
        if form is BodyForm.SHORT:
            body = body[: max(0, most)].rstrip()
        return Message(
            tone=content.tone,
            subject=subject,
            body=body or subject,
            form=form,
            thread=content.thread,
            incident=content.incident,
            is_acknowledgement=content.is_acknowledgement,
        )

    def _subject(self, content: Content) -> str:
        if content.report is not None:
            return one_line(content.report.verdict, most=_SUBJECT_CHARACTERS)
        return self._templates.subject(content.lines, page_url=self._page_url)

    def _body(self, content: Content, form: BodyForm) -> str:
        if content.report is not None:
            return self._linked(_REPORT_FORMS[form](content.report), form)
        return self._templates.body(
            form.value, content.lines, page_url=self._page_url, note=content.note
        )

    def _as_known_now(self, events: list[Sendable]) -> list[Sendable]:
        """Return the events with their alerts as they are now, where they still fire.

        The reason of a failure often becomes known a moment after it.
        """
        wanted = {
            event.alert.fingerprint: event.alert.starts_at
            for event in events
            if isinstance(event, AlertEvent) and event.alert.ends_at is None
        }
        now = {
            alert.fingerprint: alert
            for alert in (self._alerting().alerts if wanted else ())
            if alert.ends_at is None and wanted.get(alert.fingerprint) == alert.starts_at
        }
        return [
            _with_alert(event, now.get(event.alert.fingerprint, event.alert))
            if isinstance(event, AlertEvent)
            else event
            for event in events
        ]

    def _linked(self, body: str, form: BodyForm) -> str:
        """Return a report with a link to the page of reports."""
        if self._page_url is None or form is BodyForm.SHORT:
            return body
        url = f"{self._page_url}/reports"
        if form is BodyForm.HTML:
            return body.replace("</body>", f'<p><a href="{escape(url)}">Reports</a></p></body>', 1)
        return f"{body}\n[Reports]({url})\n" if form is BodyForm.MARKDOWN else f"{body}\n{url}\n"

    def _context(self, event: Sendable, known: dict[_Subject, PipelineHealth]) -> LineContext:
        now, subject = self._time_of(event), _subject_of(event)
        return LineContext(
            now=now,
            zone=self._zone,
            page_url=self._page_url,
            health=None if subject is None else known.get(subject),
            next_start=None
            if subject is None
            else self._alerting().expected_start(subject, now=now),
        )

    def _time_of(self, event: Sendable) -> datetime:
        now = self._clock.now()
        if isinstance(event, AlertEvent):
            return self._view.time_of(event.alert, now)
        status = self._view.workspace(event.workspace)
        return now if status is None else status.time_there(now)

    def _health_of(self, events: Sequence[Sendable]) -> dict[_Subject, PipelineHealth]:
        """Return the worst of the last ends of each pipeline that the events are about."""
        wanted = {subject for event in events if (subject := _subject_of(event)) is not None}
        worst: dict[_Subject, PipelineHealth] = {}
        for health in self._view.pipeline_health() if wanted else ():
            subject = (health.workspace, health.run_kind, health.pipeline.id)
            if subject not in wanted:
                continue
            before = worst.get(subject)
            if before is None or health.consecutive_failures > before.consecutive_failures:
                worst[subject] = health
        return worst


def _subject_of(event: Sendable) -> _Subject | None:
    if isinstance(event, AlertEvent):
        alert = event.alert
        if alert.kind is None or alert.pipeline is None:
            return None
        return alert.workspace, alert.kind, alert.pipeline.id
    run = event.run
    return None if run.pipeline is None else (run.key.workspace, run.key.kind, run.pipeline.id)


_SEVERITIES = tuple(Severity)


def _rank(event: Sendable) -> tuple[bool, int]:
    if not isinstance(event, AlertEvent):
        return event.type is EventType.RUN_SUCCEEDED, 0
    return event.alert.ends_at is not None, _SEVERITIES.index(event.alert.severity)


def _tone(events: Sequence[Sendable]) -> Tone:
    """Return the worst of what the events mean."""
    tones = {tone_of(event) for event in events}
    return next(tone for tone in Tone if tone in tones)


def newest_of(before: E | None, event: E) -> E:
    """Return what is to be said of two events of one subject.

    That an alert fires is the news until people are notified, also where it is acknowledged.
    """
    if not isinstance(before, AlertEvent) or not isinstance(event, AlertEvent):
        return event
    is_news = before.type in NOTIFYING and event.type is EventType.ALERT_ACKNOWLEDGED
    return msgspec.structs.replace(before, alert=event.alert) if is_news else event


def _with_alert(event: AlertEvent, now: Alert) -> AlertEvent:
    if event.type is EventType.ALERT_ACKNOWLEDGED:
        # It may have ended since; then who it was would be missing.
        now = msgspec.structs.replace(now, acknowledged=event.alert.acknowledged)
    return msgspec.structs.replace(event, alert=now)


def tone_of(event: Sendable) -> Tone:
    """Return what the event means to people."""
    if isinstance(event, AlertEvent):
        if event.alert.ends_at is not None:
            return Tone.SUCCESS
        if event.type is EventType.ALERT_ACKNOWLEDGED:
            return Tone.INFO
        is_critical = event.alert.severity is Severity.CRITICAL
        return Tone.FAILURE if is_critical else Tone.WARNING
    if event.type is EventType.RUN_FAILED:
        return Tone.FAILURE
    return Tone.SUCCESS if event.type is EventType.RUN_SUCCEEDED else Tone.INFO


def _thread(event: Sendable) -> str:
    """Return what all messages about one alert, or one run, have in common."""
    if isinstance(event, AlertEvent):
        return f"{event.alert.fingerprint}-{event.alert.starts_at:%Y%m%dT%H%M%S}"
    return event.subject
