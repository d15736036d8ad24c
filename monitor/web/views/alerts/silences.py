"""Silences, who made them, and what one would mute before it is made."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from monitor.alerting.alerts.silences import MOST_MATCHERS, matcher
from monitor.model.alerts import Acknowledgement, AlertingSnapshot, Silence
from monitor.model.errors import ConfigurationError
from monitor.model.notifying import why_not_notified
from monitor.model.slices import in_slices
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import one_line, unknown
from monitor.web.requests import AlertingRequests
from monitor.web.views.alerts.alert_details import find_alert
from monitor.web.views.alerts.alert_models import AlertView, SilenceView, alert_views, silence_view
from monitor.web.views.view import ViewSources, view

# Between two matchers, and not within a name that contains commas.
_BETWEEN = re.compile(r"[\r\n]+|,(?=\s*[A-Za-z_][A-Za-z0-9_]*\s*!?=)")
_SILENCE = "silence:"


class SilencesQuery(Struct, frozen=True, kw_only=True):
    state: Literal["active", "pending", "expired"] | None = None


class SilenceList(Struct, frozen=True, kw_only=True):
    """Silences: active and pending ones by their end; those that expired in the last day last.

    ``unnotified`` says why no alert is sent, silences or not; None where an output takes them.
    """

    data: tuple[SilenceView, ...]
    unnotified: str | None = None
    next: str | None = None


class PreviewQuery(Struct, frozen=True, kw_only=True):
    """``matcher``: one or several, separated by commas or line ends."""

    matcher: Annotated[str, Meta(description="Matchers, such as `workspace=marketing`, by commas.")]
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class SilencePreview(Struct, frozen=True, kw_only=True):
    """The open alerts that a silence with these matchers would mute; the first of ``count``."""

    data: tuple[AlertView, ...]
    count: int
    open: int
    matchers: tuple[str, ...]
    next: str | None = None


@view("silences", "/api/v1/silences", "Silences: who made them, why, and until when.")
async def silences_view(sources: ViewSources, query: SilencesQuery) -> SilenceList:
    snapshot, now = sources.alerting.snapshot(), sources.clock.now()
    muted = await _muted_alerts(snapshot)
    shown = [
        silence_view(silence, now=now, mutes=muted[silence.id]) for silence in snapshot.silences
    ]
    fitting = [silence for silence in shown if query.state in (None, silence.state)]
    return SilenceList(
        data=tuple(
            sorted(fitting, key=lambda silence: (silence.state == "expired", silence.ends_at))
        ),
        unnotified=why_not_notified(sources.alerting.outputs()),
    )


@view("silence_preview", "/api/v1/silences/preview", "The open alerts that a silence would mute.")
async def silence_preview_view(sources: ViewSources, query: PreviewQuery) -> SilencePreview:
    return await preview(sources, matchers_of(query.matcher), limit=query.limit)


async def preview(sources: ViewSources, matchers: tuple[str, ...], *, limit: int) -> SilencePreview:
    """Return the open alerts that a silence would mute.

    Raises:
        ProblemDetails: a matcher cannot be parsed, or no alert can ever match it.
    """
    alerting = sources.alerting
    if problems := matcher_problems(alerting, matchers):
        raise ProblemDetails(400, "; ".join(f"matcher: {problem}" for problem in problems))
    # In a thread: every matcher is compared with every open alert.
    found = await asyncio.to_thread(alerting.would_mute, matchers)
    return SilencePreview(
        data=await alert_views(sources, found[:limit]),
        count=len(found),
        open=sum(alert.ends_at is None for alert in alerting.snapshot().alerts),
        matchers=matchers,
    )


def silence_to_end(alerting: AlertingRequests, silence_id: str) -> Silence:
    """Return a silence that people have made.

    Raises:
        ProblemDetails: it is not known, or is part of the configuration.
    """
    silences = {silence.id: silence for silence in alerting.snapshot().silences}
    silence = silences.get(silence_id)
    if silence is None:
        raise ProblemDetails(404, f"silence: {unknown(silence_id, silences)}")
    if silence.origin == "config":
        raise ProblemDetails(
            409, f"silence {silence_id} is part of the configuration; remove it there"
        )
    return silence


def expired(silence: Silence, *, now: datetime) -> tuple[SilenceView, SilenceView]:
    """Return a silence as it is, and as it is once it has been ended now."""
    ended = msgspec.structs.replace(silence, ends_at=min(silence.ends_at, now))
    return silence_view(silence, now=now), silence_view(ended, now=now)


def acknowledged_before(alerting: AlertingRequests, fingerprint: str) -> Acknowledgement | None:
    """Return the acknowledgement that an alert has, for the audit of another one."""
    alert = find_alert(alerting.snapshot().alerts, fingerprint)
    return None if alert is None else alert.acknowledged


def matcher_problems(alerting: AlertingRequests, matchers: tuple[str, ...]) -> list[str]:
    """Return what is wrong with matchers, each as a sentence."""
    if not matchers:
        return ["name what is to be silent, such as workspace=marketing or pipeline=daily*"]
    if len(matchers) > MOST_MATCHERS:
        return [f"there are {len(matchers)}; at most {MOST_MATCHERS} are taken"]
    labels, problems = alerting.labels(), list[str]()
    for text in matchers:
        try:
            matcher(text, labels=labels)
        except ConfigurationError as exc:
            problems += [one_line(problem) for problem in exc.problems]
    return problems


def matchers_of(text: str) -> tuple[str, ...]:
    """Return the matchers of a text: one a line, or separated by commas."""
    return tuple(part.strip() for part in _BETWEEN.split(text) if part.strip())


async def _muted_alerts(snapshot: AlertingSnapshot) -> Counter[str]:
    """Return how many open alerts each silence holds back."""
    muted: Counter[str] = Counter()
    async for alert in in_slices(snapshot.alerts):  # thousands in an outage
        if alert.ends_at is None:
            muted.update(
                by.removeprefix(_SILENCE) for by in alert.muted_by if by.startswith(_SILENCE)
            )
    return muted
