"""Writes families as text straight from rows: thousands of series in a few milliseconds.

The client library makes an object of every sample and sorts and escapes its labels on each page,
and every callback waits meanwhile for the interpreter. Here the start of each line
is cached, and a page costs little more than its values. Line for line it is what the library
writes; the library still writes the HELP and TYPE lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import copysign

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from monitor.model.registries import SHARD, WORKSPACE
from monitor.model.slices import pieces_of
from monitor.outputs.metrics.counter_rows import RunExemplar
from monitor.outputs.metrics.family_shapes import FamilyShape

Encoder = Callable[[Collector], bytes]

LabelValues = tuple[str, ...]
Ending = tuple[str, dict[str, str]]  # after the family's name, and beside the row's labels

_VALUES_KEPT = 4_096  # most values on a page are 0, 1 or another small count

# The library has no types here.
_written_once: Callable[[float], str] = lru_cache(_VALUES_KEPT)(floatToGoString)

_END = b"# EOF\n"
_LINES_JOINED = 1_000
_NO_EXEMPLARS: Mapping[str, RunExemplar] = {}


class ExpositionCache:
    """Keeps the starts of lines from one page for the next.

    What a page no longer shows is dropped.
    """

    def __init__(self) -> None:
        self._starts: dict[str, dict[LabelValues, tuple[str, ...]]] = {}

    def begin(self, encoder: Encoder, *, is_openmetrics: bool, shard: str = "") -> ExpositionPage:
        """Begin a page in the format of the library's ``encoder``.

        A ``shard`` with a name becomes a label of what has no workspace.
        """
        return ExpositionPage(self._starts, encoder, is_openmetrics=is_openmetrics, shard=shard)


class ExpositionPage:
    """One page while it is written."""

    def __init__(
        self,
        starts: dict[str, dict[LabelValues, tuple[str, ...]]],
        encoder: Encoder,
        *,
        is_openmetrics: bool,
        shard: str,
    ) -> None:
        self._starts = starts
        self._encoder = encoder
        self._shard = {SHARD: shard} if shard else {}
        self._is_openmetrics = is_openmetrics

    def family_text(self, shape: FamilyShape) -> FamilyText:
        """Return an empty family; each row is one series."""
        return self._family_text(shape, names=shape.labels, endings=(("", {}),))

    def spread(
        self, shape: FamilyShape, words: Sequence[str], *, exemplars: str = ""
    ) -> FamilyText:
        """Return an empty family; each row has a series for every word, which is the last label.

        Where ``exemplars`` is given, the exemplars of the series are those under it and the word.
        """
        *names, last = shape.labels
        endings = [("", {last: word}) for word in words]
        keys = [f"{exemplars}:{word}" for word in words] if exemplars else ()
        return self._family_text(shape, names=names, endings=endings, exemplar_keys=keys)

    def histogram(
        self, shape: FamilyShape, bounds: Sequence[float], *, exemplars: str
    ) -> FamilyText:
        """Return an empty family; each row has cumulative buckets, the count and the sum.

        The exemplars of the buckets are those under ``exemplars`` and their place.
        """
        limits = [*map(_written, bounds), "+Inf"]
        endings: list[Ending] = [("_bucket", {"le": limit}) for limit in limits]
        endings += [("_count", {}), ("_sum", {})]
        keys = [f"{exemplars}:{place}" for place in range(len(limits))]
        return self._family_text(shape, names=shape.labels, endings=endings, exemplar_keys=keys)

    def _family_text(
        self,
        shape: FamilyShape,
        *,
        names: Sequence[str],
        endings: Sequence[Ending],
        exemplar_keys: Sequence[str] = (),
    ) -> FamilyText:
        if self._shard and WORKSPACE not in shape.labels:
            endings = [(ending, {**self._shard, **more}) for ending, more in endings]
        known = self._starts.get(shape.name, {})
        kept = self._starts[shape.name] = {}
        return FamilyText(
            head=lambda: self._encoder(_Empty(shape)).removesuffix(_END),
            start=lambda labels: _starts(shape.name, names, labels, endings),
            known=known,
            kept=kept,
            exemplar_keys=exemplar_keys if self._is_openmetrics else (),
        )


class FamilyText:
    """One family. The series of a row stand together, in the order of the endings."""

    def __init__(
        self,
        *,
        head: Callable[[], bytes],
        start: Callable[[LabelValues], tuple[str, ...]],
        known: Mapping[LabelValues, tuple[str, ...]],
        kept: dict[LabelValues, tuple[str, ...]],
        exemplar_keys: Sequence[str],
    ) -> None:
        self._head = head
        self._start = start
        self._known = known
        self._kept = kept
        self._exemplar_keys = exemplar_keys
        self._lines: list[str] = []

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._lines)

    def add(
        self,
        labels: LabelValues,
        *values: float,
        seen: Mapping[str, RunExemplar] = _NO_EXEMPLARS,
    ) -> None:
        """Add a row, with a value for each of its series."""
        starts = self._known.get(labels)
        if starts is None:
            starts = self._start(labels)
        self._kept[labels] = starts
        lines = [f"{start}{_written(value)}" for start, value in zip(starts, values, strict=True)]
        if seen and self._exemplar_keys:
            for place, key in enumerate(self._exemplar_keys):
                if key in seen:
                    lines[place] += _exemplar(seen[key])
        self._lines += lines

    @property
    def lines(self) -> Sequence[str]:
        """The series, a line each."""
        return self._lines

    def texts(self) -> Iterator[bytes]:
        """Yield the family as it stands on the page; nothing at all if it has no series."""
        return texts_of([self])

    def head(self) -> bytes:
        """Return what comes before the series."""
        return self._head()


def texts_of(family_texts: Iterable[FamilyText]) -> Iterator[bytes]:
    """Yield one family of several shards as it stands on the page; nothing if it has no series.

    In pieces: joining megabytes at once lets no other thread run meanwhile.
    """
    lines: list[str] = []
    for family_text in family_texts:
        if not lines and family_text.lines:
            yield family_text.head()
        lines += family_text.lines
    for some in pieces_of(lines, size=_LINES_JOINED):
        yield "\n".join([*some, ""]).encode()


class _Empty:
    """Shows the library one family without samples, whose head it writes."""

    def __init__(self, shape: FamilyShape) -> None:
        self._shape = shape

    def collect(self) -> Iterator[Metric]:
        yield self._shape.family()


def _starts(
    name: str, names: Sequence[str], labels: LabelValues, endings: Iterable[Ending]
) -> tuple[str, ...]:
    """Return what comes before the values of a row. The library sorts labels by name."""
    own = dict(zip(names, labels, strict=True))
    starts: list[str] = []
    for ending, more in endings:
        shown = ",".join(
            f'{key}="{_escaped(text)}"' for key, text in sorted({**own, **more}.items())
        )
        starts.append(f"{name}{ending}{{{shown}}} " if shown else f"{name}{ending} ")
    return tuple(starts)


def _written(value: float) -> str:
    if value:
        return _written_once(value)
    # The two zeros are equal, so a cache would take one for the other.
    return "-0.0" if copysign(1.0, value) < 0 else "0.0"


def _exemplar(seen: RunExemplar) -> str:
    return f' # {{run_id="{_escaped(seen.run_id)}"}} {_written(seen.value)} {seen.at}'


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
