"""Texts of alerts: templates, such as ``{pipeline} runs {started_at:since}``, and their rendering.

An alert keeps templates and facts; what they say is computed when it is read, so that no
duration is frozen in a text. A field is a name, with a form after it at most. Nothing can be
reached through a field, so no template does harm or fails later.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo

import msgspec
from msgspec import Struct

from monitor.model.alerts import ENDED_BECAUSE, NAME_TAKEN_BY, Alert, AlertState
from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean
from monitor.model.words import clock_time, duration, iso, relative

LONGEST_TEMPLATE = 2_000  # characters
LONGEST_TEXT = 2_000
NO_VALUE = "-"
PAIR = "|"  # between wordings: for what is not over, for what is, for what has no such instant

# What every alert has, whatever its rule.
COMMON_FIELDS = (
    "rule",
    "severity",
    "workspace",
    "kind",
    "pipeline",
    "pipeline_id",
    "starts_at",
    "evidence_count",
    "url",
    "owner",
    "trigger",
    "folder",
    "plan",
)
_LABELS = ("workspace", "kind", "pipeline", "pipeline_id")

Value = str | float | datetime | None

_INSTANT = ("time", "since", "relative", f"words{PAIR}words")
# Fields are named after what they hold.
_FORMS = {"seconds": ("duration",), "_at": _INSTANT, "_since": _INSTANT, "ratio": ("percent",)}
_ALL_FORMS = tuple(dict.fromkeys(form for forms in _FORMS.values() for form in forms))
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}:]*)(?::([^{}]*))?\}")
_NAME = re.compile(r"[a-z_]+")
_MOST_EXACT = 2.0**53  # beyond, a float is not sure of its last digits


class Rendering(Struct, frozen=True, kw_only=True, gc=False):
    """When texts are read, and when what they are about ended.

    ``is_kept``: they stay where they are sent, and must be true whenever they are read there;
    so instants stand in place of what goes on. ``at`` is when they were written then.
    """

    at: datetime
    ended_at: datetime | None = None
    is_kept: bool = False
    zone: tzinfo | None = None  # of instants; None: UTC, as machines read them


def texts_of(
    alert: Alert, at: datetime, *, is_kept: bool = False, zone: tzinfo | None = None
) -> dict[str, str]:
    """Return the annotations of an alert as they read at that time, by the clock of its subject.

    ``is_kept``: they are read at any time after it, such as in a retained message or in a file.
    The description of an alert that is over says why, where nothing became well.
    """
    values: dict[str, Value] = {
        **alert.facts,
        **{name: alert.labels.get(name) for name in _LABELS},
        "rule": alert.name,
        "severity": alert.severity,
        "starts_at": alert.starts_at,
        "evidence_count": float(alert.evidence_count),
    }
    ended_at = (alert.ends_at or at) if alert.state is AlertState.RESOLVED else None
    rendering = Rendering(at=at, ended_at=ended_at, is_kept=is_kept, zone=zone)
    texts = {name: fill(text, values, rendering) for name, text in alert.templates.items()}
    if ended_at is not None and (words := end_words(alert)):
        before = texts.get("description", "")[: LONGEST_TEXT - len(words) - 2].rstrip(".")
        texts["description"] = f"{before}. {words}" if before else words
    return texts


def end_words(alert: Alert) -> str:
    """Return why an alert is over where nothing became well, and what has its name now."""
    because, by = alert.facts.get(ENDED_BECAUSE), alert.facts.get(NAME_TAKEN_BY)
    words = "" if because is None else f"Ended: {because}."
    if by is not None:
        words += f" The name {alert.labels.get('pipeline')} is that of {by} now."
    return words.lstrip()[:LONGEST_TEXT]


def with_texts(alert: Alert, at: datetime, *, is_kept: bool = False) -> Alert:
    """Return the alert with its texts in place of its templates, for where it is shown whole."""
    return msgspec.structs.replace(alert, templates=texts_of(alert, at, is_kept=is_kept))


def fill(template: str, values: Mapping[str, Value], rendering: Rendering) -> str:
    """Return the text, at most 2,000 characters; a field without a value is a dash.

    Never fails: what is no field, such as in a text that was stored as it stands, stays as it is.
    """

    def written(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        if name is None:
            return match[0][0]
        if PAIR in name and not form:
            return _chosen(name, is_over=rendering.ended_at is not None)
        return _written(values.get(name), form, rendering) if _NAME.fullmatch(name) else match[0]

    text = _FIELD.sub(written, template)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def check_template(text: str, fields: tuple[str, ...]) -> None:
    """Accept a template that names nothing but ``fields``, in forms that fit them.

    Raises:
        ConfigurationError: one sentence says what is wrong, and the nearest valid name.
    """
    if len(text) > LONGEST_TEMPLATE:
        raise ConfigurationError(f"must be at most {LONGEST_TEMPLATE:,} characters")
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as exc:
        raise ConfigurationError(
            "has a brace without its other half; write {{ and }} for braces that are meant"
        ) from exc
    for _, field, form, conversion in parsed:
        if field is not None:
            _check_field(field, form or "", conversion, fields)


def _check_field(field: str, form: str, conversion: str | None, fields: tuple[str, ...]) -> None:
    is_pair = PAIR in field
    if not is_pair and field not in fields:
        hint = did_you_mean(field, fields) or f"; there are {', '.join(fields)}"
        raise ConfigurationError(f"there is no field {{{field}}}{hint}")
    if conversion is not None:
        raise ConfigurationError(f"!{conversion} is not known; write {{{field}}}")
    if not form:
        return
    if PAIR in form and "{" in form:
        raise ConfigurationError(f"a form holds no braces; write {{{field}:time}} or {{{field}}}")
    if PAIR not in form and form not in _ALL_FORMS:
        hint = did_you_mean(form, _ALL_FORMS) or f"; there are {', '.join(_ALL_FORMS)}"
        raise ConfigurationError(f"there is no form :{form}{hint}")
    fitting = () if is_pair else _forms_of(field)
    if form not in fitting and not (PAIR in form and fitting == _INSTANT):
        hint = f"write {{{field}:{fitting[0]}}}" if fitting else f"write {{{field}}}"
        raise ConfigurationError(f":{form} does not fit {field}; {hint}")


def fact_words(name: str, value: Value) -> str:
    """Return a fact as people read it: by its name, with its unit."""
    return _plain(value, next(iter(_forms_of(name)), ""))


def _forms_of(field: str) -> tuple[str, ...]:
    return next((forms for ending, forms in _FORMS.items() if field.endswith(ending)), ())


def _chosen(pair: str, *, is_over: bool) -> str:
    first, second, *_ = pair.split(PAIR)
    return second if is_over else first


def _written(value: Value, form: str, rendering: Rendering) -> str:
    if form not in {"since", "relative"} and PAIR not in form:
        is_instant = form == "time" or isinstance(value, datetime)
        instant = _instant(value) if is_instant and rendering.zone is not None else None
        return _plain(value, form) if instant is None else _at(instant, rendering)
    instant = _instant(value)
    if instant is None:
        is_absent = value is None and form.count(PAIR) > 1
        return form.split(PAIR)[2] if is_absent else _plain(value, "")
    if form == "since":
        return _since(instant, rendering)
    words = _chosen(form, is_over=rendering.at >= instant) if PAIR in form else ""
    is_fixed = rendering.is_kept or rendering.ended_at is not None
    seconds = (rendering.at - instant).total_seconds()
    return f"{words} {f'at {_at(instant, rendering)}' if is_fixed else relative(seconds)}".lstrip()


def _since(instant: datetime, rendering: Rendering) -> str:
    """Return for how long it has lasted, or had at its end."""
    if rendering.is_kept and rendering.ended_at is None:
        return f"since {_at(instant, rendering)}"
    until = rendering.ended_at or rendering.at
    # The clocks of the two instants may be apart, and nothing lasts less than no time.
    return f"for {duration(max(0.0, (until - instant).total_seconds()))}"


def _at(at: datetime, rendering: Rendering) -> str:
    return iso(at) if rendering.zone is None else clock_time(at, rendering.zone)


def instant_of(name: str, value: Value) -> datetime | None:
    """Return the instant that a fact of that name holds; None where it holds none."""
    return _instant(value) if _forms_of(name) == _INSTANT else None


def _instant(value: Value) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        # The first and the last day of the calendar lie outside of it in another zone.
        return at.astimezone(UTC) if isinstance(at, datetime) and at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _plain(value: Value, form: str) -> str:
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return iso(at) if (at := _instant(value)) is not None else str(value)
    if not math.isfinite(value):
        return str(value)
    return _NUMBERS.get(form, _number)(value)


def _number(value: float) -> str:
    is_complete = abs(value) < _MOST_EXACT and value == int(value)
    return str(int(value)) if is_complete else f"{value:.6g}"


def _time(seconds: float) -> str:
    """Return an instant that is given as seconds since 1970."""
    try:
        return iso(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):  # no calendar reaches so far
        return str(seconds)


_NUMBERS: dict[str, Callable[[float], str]] = {
    "duration": duration,
    "time": _time,
    "percent": lambda ratio: f"{ratio * 100:.1f} %",
}
