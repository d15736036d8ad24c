"""The shapes and words of alerts and silences, for page and JSON API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from urllib.parse import quote, urlencode

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alert_texts import end_words, instant_of, texts_of
from monitor.model.alerts import BRIDGE, Alert, AlertState, Silence
from monitor.model.notifying import NotificationStatus
from monitor.model.public_shapes import AlertShape, filled
from monitor.model.runs import PipelineKind, RunState
from monitor.model.slices import in_slices
from monitor.model.words import duration, kind_words, percent, utc
from monitor.web.http.request_parsing import one_line
from monitor.web.views.outage_stretches import SHOWN, outage_path
from monitor.web.views.runs.run_views import is_reason_read, reason_of_run
from monitor.web.views.view import ViewSources

_LINE_CHARACTERS = 300
# Labels of subjects other than pipelines.
_SUBJECT_LABELS = ("schedule", "output", "token_id", "part")
# What a silence of one alert matches.
_SILENCED_BY = ("alertname", "workspace", "kind", "pipeline_id", *_SUBJECT_LABELS)
_WEB = re.compile(r"https?://[^\s/?#]+[^\s]*", re.IGNORECASE)
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "limit_seconds": "limit",
        "failing": "failing parts",
        "ends": "of the last runs",
        "ratio": "failed part of the last runs",
        "missed": "missed",
        "error": "error",
        "part": "failed part",
        "percent_complete": "progress",
    }
)
_ELSEWHERE = frozenset({"error", "url", "run"})  # shown by themselves

_AT_ONCE = 20  # of a page of 1,000 alerts; to put one into words takes up to 0.1 ms


class SuppressionReason(Struct, frozen=True, kw_only=True):
    """Why an alert is not notified, in words; who said so, and until when, if a silence."""

    words: str
    until: datetime | None = None
    silence_id: str | None = None
    fingerprint: str | None = None  # of the alert that suppresses it


class AlertFact(Struct, frozen=True, kw_only=True):
    """One fact of an alert, in words with its unit; ``at``: it is an instant."""

    label: str
    words: str
    at: datetime | None = None


class AlertNames:
    """What ids in ``muted_by`` stand for: silences, and the alerts that suppress others."""

    def __init__(
        self,
        alerts: Iterable[Alert],
        silences: Iterable[Silence],
        *,
        read_at: Callable[[Alert], datetime],
    ) -> None:
        """``read_at`` is the present, by the clock of what an alert is about."""
        self._read_at = read_at
        self._alerts = {alert.fingerprint: alert for alert in alerts}
        self._silences = {silence.id: silence for silence in silences}

    def texts_of(self, alert: Alert) -> dict[str, str]:
        """Return the annotations of an alert as they read now."""
        return texts_of(alert, self._read_at(alert))

    def suppressed_by(self, alert: Alert) -> tuple[SuppressionReason, ...]:
        """Return what holds the notifications of an alert back."""
        return tuple(self._suppressed_by(alert, by) for by in alert.muted_by)

    def _suppressed_by(self, alert: Alert, by: str) -> SuppressionReason:
        what, _, which = by.partition(":")
        if what == "silence":
            return _silenced(which, self._silences.get(which))
        if what == "mute":
            return SuppressionReason(words=f"muted: rule {alert.name} sends no notifications now")
        if what != "inhibited":
            return SuppressionReason(words=one_line(by[:_LINE_CHARACTERS]))
        other = self._alerts.get(which)
        if other is None:
            words = "suppressed by another alert"
        elif other.rule == "workspace_unreachable":
            words = f"suppressed: the workspace {other.workspace} is unreachable"
        else:
            words = f"suppressed: {what_of(other, self.texts_of(other))}"
        return SuppressionReason(words=words, fingerprint=which)


def _silenced(silence_id: str, silence: Silence | None) -> SuppressionReason:
    if silence is None:
        return SuppressionReason(
            words="silenced by a silence that has expired", silence_id=silence_id
        )
    return SuppressionReason(
        words=line(f"silenced by {silence.author} until {utc(silence.ends_at)}: {silence.comment}"),
        until=silence.ends_at,
        silence_id=silence_id,
    )


def line(text: str) -> str:
    """Return a text as one line of a bounded length."""
    whole = one_line(" ".join(text.split()))
    return whole if len(whole) <= _LINE_CHARACTERS else f"{whole[:_LINE_CHARACTERS]}…"


def subject_of(alert: Alert) -> str:
    """Return the name of a pipeline, of another subject, or of the workspace."""
    named = (
        alert.labels[name] for name in ("pipeline", *_SUBJECT_LABELS) if alert.labels.get(name)
    )
    whole = "the monitor" if alert.workspace == BRIDGE else alert.workspace
    return next(named, whole)


def what_of(alert: Alert, texts: Mapping[str, str]) -> str:
    """Return what an alert says, in one line."""
    return line(texts.get("summary") or f"{kind_words(alert.name)}: {subject_of(alert)}")


def reason_of(alert: Alert, texts: Mapping[str, str]) -> str | None:
    """Return why, in one line: the error of the run, or what its rule says of it."""
    if error := alert.facts.get("error"):
        return line(" ".join(filter(None, (end_words(alert), str(error)))))
    reason = texts.get("description")
    return line(reason) if reason else None


def state_words(alert: Alert) -> str:
    """Return the state of an alert as people say it."""
    if alert.ends_at is not None and alert.state is AlertState.PENDING:
        return "over before it fired"
    if alert.state is AlertState.FIRING:
        return "flapping" if alert.is_flapping else "firing"
    return str(alert.state)


def facts_of(alert: Alert) -> tuple[AlertFact, ...]:
    """Return what is known of an alert beside its error, each with its unit."""
    return tuple(
        _fact(name, value)
        for name, value in alert.facts.items()
        if value not in (None, "") and name not in _ELSEWHERE
    )


def _fact(name: str, value: str | float | None) -> AlertFact:
    label = _LABELS.get(name) or kind_words(name.removesuffix("_seconds").removesuffix("_at"))
    if isinstance(value, str):
        return AlertFact(label=label, words=value, at=instant_of(name, value))
    number = float(value or 0)
    if name.endswith("_seconds"):
        return AlertFact(label=label, words=duration(number))
    if name.endswith("ratio"):
        return AlertFact(label=label, words=percent(number))
    if name == "percent_complete":
        return AlertFact(label=label, words=f"{number:.0f} %")
    return AlertFact(label=label, words=f"{number:,.6g}")


def runbook_of(texts: Mapping[str, str]) -> str | None:
    """Return the address of its runbook; None where it has none that a browser may open."""
    addresses = (texts.get(name) for name in ("runbook", "runbook_url"))
    return next((text for text in addresses if web_address(text)), None)


def web_address(text: object) -> str | None:
    return text if isinstance(text, str) and _WEB.fullmatch(text) else None


def pipeline_path(alert: Alert) -> str | None:
    """Return the path of the page of its pipeline."""
    pipeline = alert.pipeline
    if pipeline is None or not pipeline.id:
        return None
    kind: PipelineKind = pipeline.kind
    return f"/pipelines/{quote(alert.workspace, safe='')}/{kind}/{quote(pipeline.id, safe='')}"


def run_path(alert: Alert) -> str | None:
    """Return the path of the page of the run that it began with."""
    run = alert.run
    if run is None:
        return None
    return f"/runs/{quote(run.workspace, safe='')}/{run.kind}/{quote(run.id, safe='')}"


def outage_path_of(alert: Alert, *, now: datetime) -> str | None:
    """Return the path of the page of the outage that it is about."""
    if alert.rule != RuleKind.WORKSPACE_UNREACHABLE or now - alert.starts_at >= SHOWN:
        return None
    return outage_path(alert.workspace, alert.starts_at)


def silence_path(alert: Alert) -> str:
    """Return the URL of the form for a silence of this alert alone."""
    labels = {name: alert.labels[name] for name in _SILENCED_BY if alert.labels.get(name)}
    matchers = ",".join(f"{name}={value}" for name, value in labels.items())
    return f"/silences/new?{urlencode({'matcher': matchers})}"


def acknowledge_path(alert: Alert) -> str:
    return f"/alerts/{quote(alert.fingerprint, safe='')}/acknowledge"


def suppressors(known: Iterable[Alert], alerts: Iterable[Alert]) -> list[Alert]:
    """Return those of the known alerts that suppress some of these."""
    wanted = {by.partition(":")[2] for alert in alerts for by in alert.muted_by}
    return [alert for alert in known if alert.fingerprint in wanted] if wanted else []


class SilenceView(Silence, frozen=True, kw_only=True):
    """One silence. ``state`` is pending, active or, for a day, expired."""

    state: str
    mutes: int  # open alerts, now


class AlertLinks(Struct, frozen=True, kw_only=True):
    """Paths of the pages that belong to an alert; None where there is none.

    ``silence`` is the form for a silence of this alert alone, ``outage`` is of the last days only.
    """

    pipeline: str | None
    run: str | None
    outage: str | None
    silence: str
    acknowledge: str | None


class AlertView(AlertShape, frozen=True, kw_only=True, rename={"is_flapping": "flapping"}):
    """One alert. Instants are on the clock of its subject; ``notified_at`` is ours.

    ``notified_at`` is of the newest notification that an output has taken, ``notified_through``
    names those outputs; ``unnotified`` says why none has although it fires.
    """

    is_flapping: bool
    state: str
    workspace: str
    kind: str | None
    pipeline_id: str | None
    pipeline: str | None
    run_id: str | None
    notified_at: datetime | None
    notified_through: tuple[str, ...]
    unnotified: str | None
    reminders: int
    unjudged: str | None  # why it is unknown now whether it is over
    subject: str  # the name of the pipeline, else of what it is about
    what: str  # in one line, as ``reason``
    reason: str | None
    is_reason_read: bool  # False: why the run failed is still to be read
    state_words: str
    suppressed_by: tuple[SuppressionReason, ...]
    pipeline_kind: str | None
    run_kind: str | None
    runbook: str | None
    url: str | None  # of the run in the product
    links: AlertLinks


def silence_view(silence: Silence, *, now: datetime, mutes: int = 0) -> SilenceView:
    """Return the view of a silence at ``now``."""
    state = "pending" if now < silence.starts_at else "active"
    state = "expired" if now >= silence.ends_at else state
    shown = mutes if state == "active" else 0
    return filled(SilenceView, silence, state=state, mutes=shown)


async def alert_views(sources: ViewSources, alerts: Sequence[Alert]) -> tuple[AlertView, ...]:
    """Return the views of alerts as they read now, in their order."""
    snapshot = sources.alerting.snapshot()
    names = AlertNames(
        suppressors(snapshot.alerts, alerts), snapshot.silences, read_at=sources.time_of
    )
    notified = await sources.alerting.notifications(alerts)
    # Of those that fired without a reason: it may have been read since.
    keys = {alert.run for alert in alerts if alert.run is not None and _lacks_reason(alert)}
    runs = await sources.runs.runs(keys) if keys else {}
    return tuple(
        [
            _view(
                alert,
                names,
                notification=notification,
                now=sources.clock.now(),
                unjudged=sources.live.why_unjudged(alert) if alert.ends_at is None else None,
                run=runs.get(alert.run) if alert.run is not None else None,
            )
            async for alert, notification in in_slices(
                list(zip(alerts, notified, strict=True)), size=_AT_ONCE
            )
        ]
    )


def _lacks_reason(alert: Alert) -> bool:
    return "error" in alert.facts and not alert.facts["error"]


def _view(
    alert: Alert,
    names: AlertNames,
    *,
    notification: NotificationStatus,
    now: datetime,
    unjudged: str | None,
    run: RunState | None,
) -> AlertView:
    """Return the view of an alert; ``run`` is known of one that fired without a reason."""
    texts = names.texts_of(alert)
    # Of a failure without an error text, the description has nothing to say either.
    since_read = None if run is None else reason_of_run(run)
    return filled(
        AlertView,
        alert,
        pipeline_id=alert.pipeline.id if alert.pipeline is not None else None,
        pipeline=alert.labels.get("pipeline"),
        run_id=alert.run.id if alert.run is not None else None,
        annotations=texts,
        notified_at=notification.at,
        notified_through=notification.through,
        unnotified=notification.why_not,
        unjudged=unjudged,
        subject=subject_of(alert),
        what=what_of(alert, texts),
        reason=since_read if _lacks_reason(alert) else reason_of(alert, texts),
        is_reason_read=run is None or is_reason_read(run),
        state_words=state_words(alert),
        suppressed_by=names.suppressed_by(alert),
        pipeline_kind=alert.pipeline.kind if alert.pipeline is not None else None,
        run_kind=alert.run.kind if alert.run is not None else None,
        runbook=runbook_of(texts),
        url=web_address(alert.facts.get("url")),
        links=AlertLinks(
            pipeline=pipeline_path(alert),
            run=run_path(alert),
            outage=outage_path_of(alert, now=now),
            silence=silence_path(alert),
            acknowledge=None if alert.ends_at is not None else acknowledge_path(alert),
        ),
    )
