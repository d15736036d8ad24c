"""Matchers of silences, what they fit, and how many pipelines are silenced. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import translate
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from monitor.model.alerts import Severity, Silence
from monitor.model.errors import ConfigurationError
from monitor.model.runs import RUN_KINDS, PipelineKind
from monitor.model.words import listed

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(!?=)(.*)", re.ASCII | re.DOTALL)
_WILDCARDS = frozenset("*?[")
_ANY = re.compile(r"[*?]+")
_BETWEEN = "\0"  # values in a text that is searched
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
        (_pattern(matcher.glob)(labels.get(matcher.label, "")) is not None) is matcher.is_wanted
        for matcher in matchers
    )


@lru_cache(maxsize=10_000)  # that of the library has room for 256
def _pattern(glob: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(glob)).match


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

    Takes some microseconds for each pipeline while silences are active, and for each silence that
    is no plain name a search through their names, but only once: the newest answers are kept.
    """
    active = tuple(matchers_of(silence.matchers) for silence in silences if is_active(silence, now))
    return _silenced_by(active, tuple(workspaces), tuple(pipelines))


@lru_cache(maxsize=16)
def _silenced_by(
    active: tuple[Matchers, ...], workspaces: tuple[str, ...], pipelines: tuple[NamedAs, ...]
) -> Silenced:
    index = _Index(pipelines)
    for matchers in dict.fromkeys(active):
        index.silence(matchers)
        if index.is_complete:
            break
    known: Counter[str] = Counter()
    silenced: Counter[str] = Counter()
    for number, (workspace, *_) in enumerate(pipelines):
        known[workspace] += 1
        silenced[workspace] += index.is_silenced(number)

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


class _Values:
    """The values of one label, and which failed runs carry each."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, list[int]] = defaultdict(list)
        self._names: tuple[str, ...] = ()
        self._text, self._starts = "", list[int]()

    def add(self, value: str, run: int) -> None:
        self._runs[value].append(run)

    def index(self) -> None:
        """Make the text that is searched; no value is added after this."""
        self._names = tuple(self._runs)
        self._text = _BETWEEN.join(self._names)
        ends = accumulate(len(name) + len(_BETWEEN) for name in self._names)
        self._starts = [0, *ends]

    def equal(self, value: str) -> Sequence[int]:
        return self._runs.get(value, ())

    def containing(self, part: str) -> Iterator[int]:
        """Return the runs whose value may contain a text: all that do, and few others."""
        at = self._text.find(part)
        while at >= 0:
            value = bisect_right(self._starts, at) - 1
            yield from self._runs[self._names[value]]
            at = self._text.find(part, self._starts[value + 1])


class _Index:
    """The failed runs that pipelines can have, and which of them are silenced.

    A silence looks only at those that have the value, or the longest part of a glob, that one of
    its matchers demands: a thousand globs over ten thousand pipelines are a thousand searches.
    """

    def __init__(self, pipelines: Sequence[NamedAs]) -> None:
        self._labels: list[dict[str, str]] = []
        self._of_pipeline: list[range] = []
        self._values = {label: _Values() for label in _OF_PIPELINES}
        self._silenced: set[int] = set()
        for workspace, kind, pipeline_id, label in pipelines:
            first = len(self._labels)
            for run_kind in RUN_KINDS[kind]:
                labels = {
                    "workspace": workspace,
                    "kind": run_kind.value,
                    "pipeline": label,
                    "pipeline_id": pipeline_id,
                }
                for name, value in labels.items():
                    self._values[name].add(value, len(self._labels))
                self._labels.append(labels)
            self._of_pipeline.append(range(first, len(self._labels)))
        for values in self._values.values():
            values.index()

    @property
    def is_complete(self) -> bool:
        """True where all are silenced."""
        return len(self._silenced) == len(self._labels)

    def is_silenced(self, pipeline: int) -> bool:
        """True where every failed run of the pipeline is silenced."""
        return self._silenced.issuperset(self._of_pipeline[pipeline])

    def silence(self, matchers: Matchers) -> None:
        """Let the runs that all matchers fit be silenced."""
        others = [matcher for matcher in matchers if matcher.label not in _OF_PIPELINES]
        if not fits(others, _FAILURE):
            return
        own = [matcher for matcher in matchers if matcher.label in _OF_PIPELINES]
        for run in self._candidates(own):
            if run not in self._silenced and fits(own, self._labels[run]):
                self._silenced.add(run)

    def _candidates(self, own: Sequence[Matcher]) -> Iterable[int]:
        if (equal := literal(own)) is not None:
            label, value = equal
            return self._values[label].equal(value)
        wanted = [(_longest_part(matcher.glob), matcher) for matcher in own if matcher.is_wanted]
        part, matcher = max(wanted, key=lambda pair: len(pair[0]), default=("", None))
        if not part or matcher is None:
            return range(len(self._labels))
        return self._values[matcher.label].containing(part)


def _longest_part(glob: str) -> str:
    """Return the longest text that whatever fits the glob contains."""
    return max(_ANY.split(glob.partition("[")[0]), key=len)


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
