"""Silences: how they are written, parsed and validated."""

from __future__ import annotations

import fnmatch
import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import BRIDGE, Severity, Silence
from monitor.model.errors import ConfigurationError
from monitor.model.globs import EXCLUDES
from monitor.model.runs import RunKind
from monitor.model.settings import Setting
from monitor.model.silencing import Matcher, parsed_matcher
from monitor.model.suggestions import did_you_mean
from monitor.model.words import duration

# Never a run, an owner or a message: those are facts of one moment, and labels stay.
SHOWN_LABELS = (
    "alertname",
    "rule",
    "severity",
    "workspace",
    "kind",
    "pipeline",
    "pipeline_id",
    # What else the alert is about, by its kind of subject.
    "schedule",
    "output",
    "token_id",
    "part",  # of the daemon: "backlog:mqtt", "dead_letters:mqtt", "lost:mqtt", "store"
)


MOST_MATCHERS = 20
LONGEST_MATCHER = 500  # characters
LONGEST_WORDS = 1_000  # of author and comment
_SHOWN = 80  # characters of a text that has a problem
_WORDS_SHOWN = 15  # values of a label that are listed
MATCHER_FORM = '"workspace=marketing" or "pipeline!=daily*"'


# The labels that alerts may have, each with its possible values; none: any text.
Labels = Mapping[str, Collection[str]]

_ANY_TEXT: Labels = MappingProxyType(dict.fromkeys(SHOWN_LABELS, ()))


class SilenceSettings(Struct, frozen=True, kw_only=True):
    """Suppress the notifications of matching alerts until a time.

    Repeat the table for each further one; `dataprep-monitor silence` makes them without a restart.
    """

    matchers: Annotated[
        tuple[str, ...],
        Setting(
            'Labels of the alert; all must match: "label=glob" or "label!=glob".',
            ["workspace=marketing", "pipeline=Orders*"],
        ),
    ]
    comment: Annotated[str, Setting("The reason; `explain` shows it.", "The warehouse moves.")]
    ends_at: Annotated[
        datetime,
        Setting(
            "When it ends. There is no silence without an end.",
            datetime(2026, 12, 24, 18, tzinfo=UTC),
        ),
    ]
    starts_at: Annotated[
        datetime | None,
        Setting(
            "When it begins; without it, as soon as it is loaded.",
            datetime(2026, 12, 24, 6, tzinfo=UTC),
        ),
    ] = None
    author: Annotated[str, Setting("Who made it.")] = "configuration"


def labels_to_match(
    own: Iterable[str], *, rules: Iterable[str], workspaces: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the labels for matchers: those of every alert, and ``own`` ones of rules.

    ``rules`` and ``workspaces`` are the names that exist; without any, every text is accepted.
    """
    names = tuple(workspaces)
    words: dict[str, tuple[str, ...]] = {
        "alertname": tuple(dict.fromkeys(rules)),
        "rule": tuple(RuleKind),
        "severity": tuple(Severity),
        "workspace": tuple(dict.fromkeys((*names, BRIDGE))) if names else (),
        "kind": (*RunKind, ""),  # what is about no runs has none
    }
    return {label: words.get(label, ()) for label in (*SHOWN_LABELS, *own)}


def matcher(text: str, *, labels: Labels | None) -> Matcher:
    """Parse ``label=glob`` or ``label!=glob``. ``labels`` None accepts any.

    Raises:
        ConfigurationError: it has another form, or no alert can ever match it.
    """
    parsed = parsed_matcher(text) if len(text) <= LONGEST_MATCHER else None
    if parsed is None:
        raise ConfigurationError(f"{_cut(text)!r} is no matcher: write it as {MATCHER_FORM}")
    label, glob = parsed.label, parsed.glob
    if labels is not None and label not in labels:
        hint = did_you_mean(label, labels) or f": there are {', '.join(labels)}"
        raise ConfigurationError(f"{_cut(text)!r}: no alert has a label {label!r}{hint}")
    if labels is not None and glob.startswith(EXCLUDES):
        # What excludes in `match` would be a name here, and the silence would suppress nothing.
        raise ConfigurationError(f"{_cut(text)!r}: write {_cut(f'{label}!={glob[1:]}')!r}")
    if labels is not None and (words := labels[label]):
        _refuse_unknown(text, label, glob, words)
    return parsed


def _refuse_unknown(text: str, label: str, glob: str, words: Collection[str]) -> None:
    if any(fnmatch.fnmatchcase(word, glob) for word in words):
        return
    known = [word for word in words if word]
    hint = did_you_mean(glob[:_SHOWN], known)
    if not hint and len(known) <= _WORDS_SHOWN:
        hint = f"; there are {', '.join(known)}"
    raise ConfigurationError(f"{_cut(text)!r}: no {label} fits {_cut(glob)!r}{hint}")


def parse_instant(text: str) -> datetime:
    """Parse an instant in ISO 8601 with its offset from UTC.

    Raises:
        ConfigurationError: it is none, or has no time zone.
    """
    try:
        at = datetime.fromisoformat(text)
        in_utc = at.astimezone(UTC)
    except (ValueError, OverflowError) as exc:  # no time, or none that UTC has
        raise ConfigurationError(
            f"{_cut(text)!r} is no time: write it as 2026-11-21T18:00:00Z"
        ) from exc
    if at.tzinfo is None:
        raise ConfigurationError(f"{_cut(text)!r} has no time zone: end it with Z or +01:00")
    return in_utc


def new_silence(
    *,
    matchers: Sequence[str],
    author: str,
    comment: str,
    starts_at: datetime | None,
    ends_at: datetime | None,
    now: datetime,
    longest_seconds: float,
    labels: Labels = _ANY_TEXT,
) -> Silence:
    """Return a new silence under an id of its own.

    Raises:
        ConfigurationError: one problem for each thing that is wrong.
    """
    begins_at = now if starts_at is None else starts_at
    problems = silence_problems(
        matchers=matchers, author=author, comment=comment, starts_at=begins_at, ends_at=ends_at,
        labels=labels,
    )  # fmt: skip
    if ends_at is not None and ends_at <= now:
        # Where its end is past, how it compares with the start adds nothing.
        problems = [problem for problem in problems if not problem.startswith("ends_at: ")]
        problems.append(f"ends_at: {_written(ends_at)} is over; give a time to come")
    elif ends_at is not None and (ends_at - begins_at).total_seconds() > longest_seconds:
        problems.append(
            f"ends_at: {_written(ends_at)} is more than {duration(longest_seconds)} after the "
            "start, the longest that silences last here; give an earlier end, or raise "
            "longest_silence_seconds in [alerting]"
        )
    if problems or ends_at is None:
        raise ConfigurationError(problems)
    return Silence(
        id=secrets.token_hex(8),
        matchers=tuple(matcher.strip() for matcher in matchers),
        author=author.strip(),
        comment=comment.strip(),
        starts_at=begins_at,
        ends_at=ends_at,
        origin="api",
    )


def configured_silence(settings: SilenceSettings, *, now: datetime) -> Silence:
    """Return a silence of the configuration; the same settings keep their id at every reload."""
    text = msgspec.json.encode((settings.matchers, settings.starts_at, settings.ends_at))
    return Silence(
        id=f"config-{hashlib.sha256(text).hexdigest()[:16]}",
        matchers=settings.matchers,
        author=settings.author,
        comment=settings.comment,
        starts_at=settings.starts_at or now,
        ends_at=settings.ends_at,
        origin="config",
    )


def silence_problems(
    *,
    matchers: Sequence[str],
    author: str,
    comment: str,
    starts_at: datetime | None,
    ends_at: datetime | None,
    labels: Labels = _ANY_TEXT,
) -> list[str]:
    """Return what is wrong, each as ``key: sentence``. One that is over is no problem here.

    A configuration must be valid after its silences have ended.
    """
    problems = [f"matchers: {problem}" for problem in _matcher_problems(matchers, labels)]
    for key, words in (("author", author), ("comment", comment)):
        if problem := words_problem(words):
            problems.append(f"{key}: {problem}")
    if ends_at is None:
        problems.append("ends_at: is needed: a silence without an end is forgotten; give it one")
    elif starts_at is not None and ends_at <= starts_at:
        problems.append(
            f"ends_at: {_written(ends_at)} is not after the start {_written(starts_at)}"
        )
    return problems


def words_problem(words: str, *, is_needed: bool = True) -> str | None:
    """Return what is wrong with what a person wrote: an author or a comment."""
    if is_needed and not words.strip():
        return "is needed: who reads it later wants to know"
    return f"is longer than {LONGEST_WORDS:,} characters" if len(words) > LONGEST_WORDS else None


def _matcher_problems(matchers: Sequence[str], labels: Labels) -> list[str]:
    if not matchers:
        return [f"name what is to be silent, such as {MATCHER_FORM}"]
    if len(matchers) > MOST_MATCHERS:
        return [f"there are {len(matchers)}; at most {MOST_MATCHERS} are taken"]
    problems: list[str] = []
    for text in matchers:
        try:
            matcher(text, labels=labels)
        except ConfigurationError as exc:
            problems.extend(exc.problems)
    return problems


def _written(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
