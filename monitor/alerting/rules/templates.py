"""Annotations: texts with fields in braces, such as ``{pipeline} runs for {seconds:duration}``.

A field is a name, with ``:duration``, ``:time`` or ``:percent`` behind it at most, whichever
of them fits it. Nothing can be reached through a field and nothing is computed, so no template
does harm or fails later.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean

LONGEST_TEMPLATE = 2_000  # characters
LONGEST_TEXT = 2_000
NO_VALUE = "-"
_PARSED_KEPT = 256

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

Value = str | float | datetime | None


class Piece(Struct, frozen=True, kw_only=True):
    """Literal text, and the field behind it. ``field`` is empty at the end of a template."""

    text: str
    field: str = ""
    form: str = ""


class Template(Struct, frozen=True, kw_only=True):
    """A parsed template. Filling it in cannot fail."""

    pieces: tuple[Piece, ...]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(piece.field for piece in self.pieces if piece.field)

    def fill(self, values: Mapping[str, Value]) -> str:
        """Return the text, at most 2,000 characters; a field without a value is a dash."""
        parts: list[str] = []
        for piece in self.pieces:
            parts.append(piece.text)
            if piece.field:
                parts.append(_written(values.get(piece.field), piece.form))
        text = "".join(parts)
        return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


# Those of the default rules are the same in every shard.
@lru_cache(maxsize=_PARSED_KEPT)
def parse_template(text: str, fields: tuple[str, ...]) -> Template:
    """Parse a template that may name ``fields``.

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
    return Template(pieces=tuple(_piece(*item, fields=fields) for item in parsed))


def _piece(
    text: str,
    field: str | None,
    form: str | None,
    conversion: str | None,
    *,
    fields: Collection[str],
) -> Piece:
    if field is None:
        return Piece(text=text)
    if field not in fields:
        hint = did_you_mean(field, fields) or f"; there are {', '.join(fields)}"
        raise ConfigurationError(f"there is no field {{{field}}}{hint}")
    if conversion is not None:
        raise ConfigurationError(f"!{conversion} is not known; write {{{field}}}")
    if form and form not in _FORMS:
        hint = did_you_mean(form, _FORMS) or f"; there are {', '.join(_FORMS)}"
        raise ConfigurationError(f"there is no form :{form}{hint}")
    if form and form != (fitting := _form_of(field)):
        hint = f"write {{{field}:{fitting}}}" if fitting else f"write {{{field}}}"
        raise ConfigurationError(f":{form} does not fit {field}; {hint}")
    return Piece(text=text, field=field, form=form or "")


def fact_words(name: str, value: Value) -> str:
    """Return a fact as people read it: by its name, with its unit."""
    return _written(value, _form_of(name))


def _form_of(field: str) -> str:
    """Return the form that a field may have; fields are named after what they hold."""
    return next((form for ending, form in _ENDINGS.items() if field.endswith(ending)), "")


def _written(value: Value, form: str) -> str:
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if form and not isinstance(value, str):
        return _FORMS[form](value)
    if isinstance(value, datetime):
        return iso_time(value)
    return value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    is_whole = abs(value) < _MOST_EXACT and value == int(value)
    return str(int(value)) if is_whole else f"{value:.6g}"


def _duration(value: float | datetime) -> str:
    """Return seconds as "2d 3h", "1h 5m", "4m 10s" or "7s"; never more than two units."""
    if isinstance(value, datetime):
        return _time(value)
    seconds = round(abs(value))
    sign = "-" if value < 0 and seconds else ""
    for size, unit, next_size, next_unit in _UNITS:
        if seconds >= size:
            rest = seconds % size // next_size
            return f"{sign}{seconds // size}{unit}" + (f" {rest}{next_unit}" if rest else "")
    return f"{sign}{seconds}s"


def _time(value: float | datetime) -> str:
    """Return an instant, which may be given as seconds since 1970, to the second in UTC."""
    try:
        return iso_time(
            value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
        )
    except (ValueError, OverflowError, OSError):  # no calendar reaches so far
        return str(value)


def iso_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _percent(value: float | datetime) -> str:
    return _time(value) if isinstance(value, datetime) else f"{value * 100:.1f} %"


_ENDINGS = {"seconds": "duration", "_at": "time", "ratio": "percent"}

_MOST_EXACT = 2.0**53  # beyond, a float is not sure of its last digits

_UNITS = (
    (86_400, "d", 3_600, "h"),
    (3_600, "h", 60, "m"),
    (60, "m", 1, "s"),
)

_FORMS: dict[str, Callable[[float | datetime], str]] = {
    "duration": _duration,
    "time": _time,
    "percent": _percent,
}
