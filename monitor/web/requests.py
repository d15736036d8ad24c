"""The requests that the server passes on to the rest of the daemon; `app` fills them in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from monitor.alerting.alerts.silences import Labels
from monitor.alerting.explain.explanation import Explanation
from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.actions import Action, ActionResult
from monitor.model.alerts import Alert, AlertingSnapshot, AppliedRule, PastQuery, Silence
from monitor.model.days_off import DaysOff
from monitor.model.notifying import MessagePreview, NotificationStatus, OutputTypes
from monitor.model.reports import Report
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed

# Output, action, ids of events; None: all dead letters of the output.
ProcessLetters = Callable[[str, LetterAction, tuple[str, ...] | None], Awaitable[LettersProcessed]]


class Requests(Struct, frozen=True, kw_only=True):
    """What the server requests of the workspaces; None is the only one.

    Each raises `MonitorError` with one sentence if it cannot be served.
    """

    track: Callable[[str | None, RunKind, str], Awaitable[str]]
    untrack: Callable[[str | None, RunKind, str], Awaitable[str]]
    webhooks: Callable[[str | None, str, str | None], Awaitable[list[dict[str, Any]]]]
    act: Callable[[str | None, Action, datetime], Awaitable[ActionResult]]  # the last is its limit


class ShardRequests(Struct, frozen=True, kw_only=True):
    """The same of one shard, for a workspace of it."""

    track: Callable[[str, RunKind, str], Awaitable[str]]
    untrack: Callable[[str, RunKind, str], Awaitable[str]]
    webhooks: Callable[[str, str, str | None], Awaitable[list[dict[str, Any]]]]
    act: Callable[[str, Action, datetime], Awaitable[ActionResult]]


class AlertingRequests(Struct, frozen=True, kw_only=True):
    """What the server requests of alerting and the outputs."""

    snapshot: Callable[[], AlertingSnapshot]
    ended: Callable[[str], Sequence[Alert]]  # the ended alerts of a fingerprint
    labels: Callable[[], Labels]  # that alerts may have, for matchers
    add_silence: Callable[[Silence], Awaitable[None]]
    expire_silence: Callable[[str], Awaitable[bool]]
    past: Callable[[PastQuery], Awaitable[Sequence[Alert]]]  # ended ones, newest end first
    rules_for: Callable[[str, Pipeline], Sequence[AppliedRule]]
    # Of a workspace and pipeline: for each rule that awaits starts by schedules, when it does not.
    starts_days_off: Callable[[str, Pipeline], Sequence[DaysOff]]
    # Fingerprint, start, author, comment, its end or None; False where no such alert is open.
    acknowledge: Callable[[str, datetime, str, str, datetime | None], Awaitable[bool]]
    would_mute: Callable[[tuple[str, ...]], Sequence[Alert]]  # the open alerts that matchers fit
    explain_alert: Callable[[str], Awaitable[Explanation | None]]
    explain_run: Callable[[RunKey], Awaitable[Explanation | None]]
    explain_pipeline: Callable[[str, PipelineKind, str], Awaitable[Explanation | None]]
    outputs: Callable[[], OutputTypes]
    unnotified: Callable[[], str | None]  # why no alert reaches anybody, worth a warning
    # What outputs have taken of each alert, in the same order.
    notifications: Callable[[Sequence[Alert]], Awaitable[Sequence[NotificationStatus]]]
    replay: Callable[[str, datetime], Awaitable[Replayed]]  # output, since
    report: Callable[[ReportQuery], Awaitable[Report]]
    process_letters: ProcessLetters
    # What channels would send about the alert of a fingerprint; None where it is not known.
    preview: Callable[[str], Awaitable[Sequence[MessagePreview] | None]]
