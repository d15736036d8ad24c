"""Matchers of silences, what they fit, and how many pipelines are silenced. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from monitor.model.alerts import Severity, Silence
from monitor.model.errors import ConfigurationError
from monitor.model.runs import RUN_KINDS, PipelineKind, RunKind
from monitor.model.words import listed

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(!?=)(.*)", re.ASCII | re.DOTALL)
_WILDCARDS = frozenset("*?[")
_NAMED = 2  # workspaces
# Of the alert about a run that fails. What a rule is named or labelled otherwise is not known here.
_FAILURE = {"alertname": "run_failed", "rule": "run_failed", "severity": Severity.CRITICAL.value}
_OUTAGE = {
    "alertname": "workspace_unreachable",
    "rule": "workspace_unreachable",
    "severity": Severity.CRITICAL.value,
}
_OF_PIPELINES = frozenset({"workspace", "kind", "pipeline", "pipeline_id"})

Matchers = tuple["Matcher", ...]
NamedAs = tuple[str, PipelineKind, str, str]  # workspace, kind, id, and the label of its alerts


class Matcher(Struct, frozen=True, kw_only=True):
    """What one label must match. A label that an alert does not have is empty."""

    label: str
    glob: str
    is_wanted: bool  # False: the label must not match


def parsed_matcher(text: str) -> Matcher | None:
    """Return ``label=glob`` or ``label!=glob`` as a matcher; None where it has another form."""
    parsed = _MATCHER.fullmatch(text)
    if parsed is None:
        return None
    label, sign, glob = parsed.groups()
    return Matcher(label=label, glob=glob.strip(), is_wanted=sign == "=")


def fits(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """True where every matcher fits; a label that is absent is empty."""
    return all(
        fnmatchcase(labels.get(matcher.label, ""), matcher.glob) is matcher.is_wanted
        for matcher in matchers
    )


def literal(matchers: Iterable[Matcher]) -> tuple[str, str] | None:
    """Return a label, and the one value of it that an alert must carry to be silenced."""
    for matcher in matchers:
        if matcher.is_wanted and matcher.glob and _WILDCARDS.isdisjoint(matcher.glob):
            return matcher.label, matcher.glob
    return None


def is_active(silence: Silence, at: datetime) -> bool:
    """True from its start on, and no longer at its end."""
    return silence.starts_at <= at < silence.ends_at


class SilencedShare(Struct, frozen=True, kw_only=True):
    """How many pipelines of a workspace are silenced, of how many that are known."""

    workspace: str
    silenced: int = 0
    pipelines: int = 0
    is_silenced: bool = (
        False  # all of them are; where none is known, what is about the workspace is
    )


class Silenced(Struct, frozen=True, kw_only=True):
    """The pipelines whose failures notify no one, because silences are at work."""

    shares: tuple[SilencedShare, ...] = ()

    @property
    def words(self) -> str | None:
        """Say how many, where it is more than half of all, or a whole workspace; else None."""
        silenced = sum(share.silenced for share in self.shares)
        pipelines = sum(share.pipelines for share in self.shares)
        whole = [share.workspace for share in self.shares if share.is_silenced]
        if not whole and silenced * 2 <= pipelines:
            return None
        where = f"all of {listed(whole, most=_NAMED)}" if whole else ""
        if not silenced:
            return f"{where} is silenced"
        verb = "is" if silenced == 1 else "are"
        return f"{silenced:,} of {pipelines:,} pipelines {verb} silenced" + (
            f" ({where})" if where else ""
        )


def silenced_of(
    silences: Iterable[Silence],
    *,
    workspaces: Iterable[str],
    pipelines: Iterable[NamedAs],
    now: datetime,
) -> Silenced:
    """Return which pipelines are silenced now, by what their failed runs would be labelled.

    Takes some microseconds for each pipeline while silences are active, and where one of hundreds
    is no plain name, as long for each of these, but only once: the newest answers are kept.
    """
    active = tuple(matchers_of(silence.matchers) for silence in silences if is_active(silence, now))
    return _silenced_by(active, tuple(workspaces), tuple(pipelines))


@lru_cache(maxsize=16)
def _silenced_by(
    active: tuple[Matchers, ...], workspaces: tuple[str, ...], pipelines: tuple[NamedAs, ...]
) -> Silenced:
    index = _Index(active)
    known: Counter[str] = Counter()
    silenced: Counter[str] = Counter()
    for workspace, kind, pipeline_id, label in pipelines:
        known[workspace] += 1
        silenced[workspace] += bool(active) and all(
            index.silences(workspace, run_kind, pipeline_id, label) for run_kind in RUN_KINDS[kind]
        )

    def is_silenced(workspace: str) -> bool:
        if known[workspace]:
            return silenced[workspace] == known[workspace]
        outage = {**_OUTAGE, "workspace": workspace}
        return any(fits(matchers, outage) for matchers in active)

    return Silenced(
        shares=tuple(
            SilencedShare(
                workspace=name,
                silenced=silenced[name],
                pipelines=known[name],
                is_silenced=is_silenced(name),
            )
            for name in workspaces
        )
    )


class _Index:
    """The silences that a failed run can have, by a label that must be equal."""

    def __init__(self, active: Sequence[Matchers]) -> None:
        self._by_label: defaultdict[tuple[str, str] | None, list[Matchers]] = defaultdict(list)
        for matchers in active:
            others = [matcher for matcher in matchers if matcher.label not in _OF_PIPELINES]
            if fits(others, _FAILURE):
                own = tuple(matcher for matcher in matchers if matcher.label in _OF_PIPELINES)
                self._by_label[literal(own)].append(own)

    def silences(self, workspace: str, kind: RunKind, pipeline_id: str, label: str) -> bool:
        labels = {
            "workspace": workspace,
            "kind": kind.value,
            "pipeline": label,
            "pipeline_id": pipeline_id,
        }
        found = self._by_label
        return any(
            fits(matchers, labels)
            for key in (None, *labels.items())
            for matchers in found.get(key, ())
        )


@lru_cache(maxsize=1_000)
def matchers_of(texts: tuple[str, ...]) -> Matchers:
    """Return matchers that were validated before; a rule whose own label one names may be gone.

    Raises:
        ConfigurationError: a text has another form.
    """
    found = [(text, parsed_matcher(text)) for text in texts]
    wrong = [f"{text!r} is no matcher" for text, matcher in found if matcher is None]
    if wrong:
        raise ConfigurationError(wrong)
    return tuple(matcher for _, matcher in found if matcher is not None)
