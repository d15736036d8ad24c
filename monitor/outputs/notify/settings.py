"""The settings of channels to people."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import Severity
from monitor.model.days_off import DaysOff, parse_date, parse_region
from monitor.model.errors import ConfigurationError
from monitor.model.events import EventType
from monitor.model.globs import fits_some, parse_globs
from monitor.model.mute_windows import parse_mute_window, time_zone_problem
from monitor.model.outside import is_host
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, each_readable, problems_of, readable
from monitor.outputs.settings import DeliverySettings, OutputRecord

_NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"
_LIBRARY = "pip install 'dataprep-monitor[notify]'"


PAGERS = frozenset({"pagerduty", "opsgenie"})


class ChannelEvent(StrEnum):
    """What a channel may send, in the words of its settings."""

    FIRED = "fired"
    RESOLVED = "resolved"
    REMINDED = "reminded"
    ACKNOWLEDGED = "acknowledged"
    OVER_WHEN_SEEN = "over_when_seen"  # an alert that had ended before it was observed
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    CORRECTED = "corrected"


TYPES: dict[ChannelEvent, frozenset[EventType]] = {
    ChannelEvent.FIRED: frozenset({EventType.ALERT_FIRED, EventType.ALERT_FLAPPING}),
    ChannelEvent.RESOLVED: frozenset({EventType.ALERT_RESOLVED}),
    ChannelEvent.REMINDED: frozenset({EventType.ALERT_REMINDED}),
    ChannelEvent.ACKNOWLEDGED: frozenset({EventType.ALERT_ACKNOWLEDGED}),
    ChannelEvent.OVER_WHEN_SEEN: frozenset({EventType.ALERT_FIRED, EventType.ALERT_RESOLVED}),
    ChannelEvent.STARTED: frozenset({EventType.RUN_STARTED}),
    ChannelEvent.SUCCEEDED: frozenset({EventType.RUN_SUCCEEDED}),
    ChannelEvent.FAILED: frozenset({EventType.RUN_FAILED}),
    ChannelEvent.CANCELED: frozenset({EventType.RUN_CANCELED}),
    ChannelEvent.CORRECTED: frozenset({EventType.RUN_CORRECTED}),
}


class GroupField(StrEnum):
    """By what messages are grouped; ``alert`` is one message for each alert."""

    WORKSPACE = "workspace"
    RULE = "rule"
    SEVERITY = "severity"
    KIND = "kind"
    PIPELINE = "pipeline"
    ALERT = "alert"


def _name(name: str) -> str | None:
    if re.fullmatch(_NAME, name) is not None:
        return None
    return "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it names the channel in metrics"


def _url(secret: Secret) -> None:
    """Accept what the library knows.

    Raises:
        ConfigurationError: it does not, or is not installed. The message does not repeat the URL.
    """
    try:
        from monitor.outputs.notify.service import demand_url  # noqa: PLC0415 - loads the library
    except ImportError as exc:
        raise ConfigurationError(f"channels need one more library: {_LIBRARY}") from exc
    demand_url(secret)


def _globs(texts: str | list[str]) -> str | None:
    return problems_of([[texts] if isinstance(texts, str) else texts], parse_globs)


def _kinds(texts: str | list[str]) -> str | None:
    return _globs(texts) or fits_some(texts, tuple(RunKind), "kind of run")


def _severities(texts: str | list[str]) -> str | None:
    return _globs(texts) or fits_some(texts, tuple(Severity), "severity")


def _events(texts: list[str]) -> str | None:
    return fits_all(texts, tuple(ChannelEvent), "event") if texts else None


def _group_fields(texts: list[str]) -> str | None:
    return fits_all(texts, tuple(GroupField), "field") if texts else None


def fits_all(texts: list[str], words: tuple[str, ...], what: str) -> str | None:
    """Return why the list is none of these words, each once; None where it is."""
    if not texts:
        return f"name at least one {what}, such as {words[0]}"
    if len(set(texts)) < len(texts):
        return f"names one {what} twice"
    # No glob: what a channel sends is to be read where it is configured.
    return fits_some([text.replace("*", "[*]") for text in texts], words, what)


class RecipientKind(StrEnum):
    """Who gets the messages of a channel."""

    URL = "url"
    OWNER = "owner"


def _domains(names: list[str]) -> str | None:
    if all(is_host(name) and "." in name and name == name.lower() for name in names):
        return None
    return 'each must be a domain in small letters, such as "example.com"'


class ChannelMatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the channel is about: globs with *, ? and [abc], one or a list of them.

    Several of one key mean any, several keys mean all; without a key, everything. One that begins
    with ! excludes what it matches.
    """

    workspace: Annotated[
        tuple[str, ...],
        Setting(
            "Names of [[workspaces]]; bridge for alerts about the daemon itself.",
            check=_globs,
            may_be_single=True,
        ),
    ] = ()
    pipeline: Annotated[
        tuple[str, ...],
        Setting("Names or ids of flows and plans.", check=_globs, may_be_single=True),
    ] = ()
    folder: Annotated[
        tuple[str, ...],
        Setting("Names of the folders that flows lie in.", check=_globs, may_be_single=True),
    ] = ()
    owner: Annotated[
        tuple[str, ...],
        Setting("Who owns the run or the pipeline.", check=_globs, may_be_single=True),
    ] = ()
    kind: Annotated[
        tuple[str, ...],
        Setting("flow_run, job_group, plan_run.", check=_kinds, may_be_single=True),
    ] = ()
    rule: Annotated[
        tuple[str, ...],
        Setting("Names or kinds of rules; runs have none.", check=_globs, may_be_single=True),
    ] = ()
    severity: Annotated[
        tuple[str, ...],
        Setting("critical, warning, info; runs have none.", check=_severities, may_be_single=True),
    ] = ()


class ChannelSettings(DeliverySettings, frozen=True, kw_only=True):
    """A place where people read: mail, chat or a pager. Repeat the table for each further one.

    Needs the extra notify: pip install 'dataprep-monitor[notify]'.
    """

    name: Annotated[
        str, Meta(pattern=_NAME), Setting("The name of the channel.", "data-team", check=_name)
    ]
    url: Annotated[
        Secret,
        Setting(
            "The service and where it sends, in Apprise's notation: mailtos://user:password@host?"
            "to=team@example.com, slack://token/#channel, pagerduty://key@api, ntfy://topic.",
            "dataprep-channel-data-team",
            readable(_url),
        ),
    ]
    to: Annotated[
        RecipientKind,
        Setting(
            "url: the addresses in it. owner: the owner of the flow or plan, as the workspace "
            "names him; where that is no address in owner_domains, those of the URL, which says "
            "so. Mail only."
        ),
    ] = RecipientKind.URL
    owner_domains: Annotated[
        tuple[str, ...],
        Setting('Domains of addresses that owners may have: ["example.com"].', check=_domains),
    ] = ()
    events: Annotated[
        tuple[str, ...],
        Setting(
            "What is sent: fired, resolved, reminded, acknowledged, over_when_seen (what had ended "
            "before it was observed); of runs that are part of no other: started, succeeded, "
            "failed, canceled, corrected. Empty: only the reports that name the channel.",
            check=_events,
        ),
    ] = ("fired", "resolved", "reminded", "acknowledged")
    match: ChannelMatch = ChannelMatch()
    group_by: Annotated[
        tuple[str, ...],
        Setting(
            "What has these in common and comes within group_wait_seconds is one message: "
            "workspace, rule, severity, kind, pipeline, alert. Empty: all. PagerDuty and "
            "Opsgenie open an incident for each alert, whatever stands here.",
            check=_group_fields,
        ),
    ] = ("workspace",)
    group_wait_seconds: Annotated[
        float,
        Meta(ge=0, le=3_600),
        Setting("How long a first alert waits for others of its group."),
    ] = 10.0
    repeat_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * 86_400),
        Setting("Least time between two messages about an alert that keeps firing."),
    ] = 0.0
    mute: Annotated[
        tuple[str, ...],
        Setting(
            'Times without messages: "Mon-Fri 22:00-06:00 Europe/Berlin", or '
            '"Sat,Sun,holidays UTC". What still fires at their end is sent then.',
            check=each_readable(parse_mute_window),
        ),
    ] = ()
    holidays: Annotated[
        str | None,
        Setting(
            "The public holidays that mute names: of a country, or of its subdivision. Needs the "
            "extra calendars.",
            "DE-BE",
            check=readable(parse_region),
        ),
    ] = None
    holiday_dates: Annotated[
        tuple[str, ...],
        Setting(
            "Further days that count as holidays.",
            ["2026-12-24", "2026-12-31"],
            check=each_readable(parse_date),
        ),
    ] = ()
    time_zone: Annotated[
        str,
        Setting("The time zone of the times in messages.", check=time_zone_problem),
    ] = "UTC"
    templates: Annotated[
        str | None,
        Setting(
            "Folder of templates that replace those of the same name: subject.txt, message.txt, "
            "message.markdown, message.html, short.txt.",
            "/etc/dataprep-monitor/templates",
        ),
    ] = None
    timeout_seconds: Annotated[
        float,
        Meta(ge=1, le=300),
        Setting(
            "Timeout for one request with its answer; a message takes three times as long at most."
        ),
    ] = 10.0
    reports: tuple[str, ...] = ()  # names of those that name this channel
    attempts: int = 10
    stores_answers_at_once: bool = True
    backoff_cap_seconds: float = 120.0  # services that throttle are asked rarely
    # A group waits, and what waits is sent together: a burst is a handful of messages.
    window: int = 5_000
    uncommitted: int = 20_000

    def __repr__(self) -> str:
        return f"ChannelSettings(name={self.name!r}, events={self.events!r})"

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        if self.to is RecipientKind.URL:
            return []
        problems: list[str] = []
        if not self.owner_domains:
            problems.append(
                'owner_domains: is needed with to = "owner", so that mail goes to your own people '
                'only; add it, such as ["example.com"]'
            )
        # A URL with a problem of its own is absent here.
        if self.url and not self.url.reveal().startswith(("mailto://", "mailtos://")):
            problems.append("to: only mail goes to owners; give a mailtos:// URL, or remove it")
        return problems

    @property
    def days_off(self) -> DaysOff:
        """Return the days that ``mute`` calls holidays."""
        return DaysOff(region=self.holidays, dates=self.holiday_dates)

    @property
    def types(self) -> frozenset[EventType]:
        """The types of events that it may send."""
        of_reports = frozenset({EventType.REPORT_DUE} if self.reports else ())
        return of_reports.union(*(TYPES[ChannelEvent(word)] for word in self.events))

    @property
    def has_incidents(self) -> bool:
        """True for a pager: what it is sent opens an incident."""
        return self.url.reveal().partition("://")[0] in PAGERS


class NotifySettings(Struct, frozen=True, kw_only=True):
    """All channels."""

    channels: tuple[ChannelSettings, ...]


NOTIFY = OutputRecord(
    section="notify",
    settings=ChannelSettings,
    output="monitor.outputs.notify.output:ChannelOutput",
    receivers=lambda channel: [channel.name],
    types=lambda channel: channel.types,
    is_one_each=True,
    split=lambda settings: settings.channels,
    gathered=lambda channels: NotifySettings(channels=channels),
)
