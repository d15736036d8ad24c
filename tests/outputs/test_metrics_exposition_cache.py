"""Cached pages are, byte for byte, what the client library writes of the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as text_families

from monitor.outputs.metrics import families
from monitor.outputs.metrics.counter_rows import QUEUE_BOUNDS, RunExemplar
from monitor.outputs.metrics.exposition import negotiate
from monitor.outputs.metrics.exposition_cache import ExpositionCache, ExpositionPage, FamilyText
from monitor.outputs.metrics.family_shapes import Family, FamilyShape, FamilyType
from tests.examples import examples

ACCEPTED = (
    "text/plain;version=0.0.4",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text;version=1.0.0;escaping=underscores",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
)
WORDS = ("good", 'b"a\\d\n', "größer")
BUCKETS = len(QUEUE_BOUNDS) + 1
EXEMPLAR_KEYS = ("x:0", "x:3", f"x:{BUCKETS - 1}", *(f"x:{word}" for word in WORDS))


class CounterRow(Struct, frozen=True):
    """A row of a cached family; each family uses as many of the labels and values as it has."""

    labels: tuple[str, ...]
    values: tuple[float, ...]
    exemplars: Mapping[str, RunExemplar]


class Plan(Struct, frozen=True):
    """A family on a page, and whether its last label is spread over the words."""

    shape: FamilyShape
    is_spread: bool
    rows: list[CounterRow]


odd_text = st.text(alphabet=st.sampled_from('"\\\n{},= aü😀\t\r\x00#'), max_size=6) | st.text(
    max_size=6
)
numbers = st.floats() | st.integers(-(10**18), 10**18) | st.booleans()
observations = st.builds(
    RunExemplar,
    run_id=odd_text,
    value=st.floats(),
    at=st.floats(allow_nan=False, allow_infinity=False),
)
row_plans = st.builds(
    CounterRow,
    labels=st.tuples(*[odd_text] * 5),
    values=st.tuples(*[numbers] * (BUCKETS + 2)),
    exemplars=st.dictionaries(st.sampled_from(EXEMPLAR_KEYS), observations, max_size=3),
)
# Only a few rows, so that they disappear and return on later pages.
page_plans = st.lists(row_plans, min_size=1, max_size=4).flatmap(
    lambda rows: st.lists(
        st.builds(
            Plan,
            shape=st.sampled_from(families.SHAPES),
            is_spread=st.booleans(),
            rows=st.lists(st.sampled_from(rows), max_size=4),
        ),
        max_size=5,
        unique_by=lambda build: build.shape.name,
    )
)


@pytest.mark.parametrize("accept", ACCEPTED)
@settings(max_examples=examples(15))
@given(pages=st.lists(page_plans, min_size=1, max_size=4))
def test_a_cached_page_is_what_the_library_writes(accept: str, pages: list[list[Plan]]) -> None:
    """Odd labels, odd numbers, exemplars, empty families, and rows of earlier pages."""
    encoder, content_type = negotiate(accept)
    is_openmetrics = content_type.startswith("application/openmetrics-text")
    family_texts = ExpositionCache()
    # A family is spread over words or is not, on all pages.
    is_spread = {plan.shape.name: plan.is_spread for plans in pages for plan in plans}
    for plans in pages:
        page = family_texts.begin(encoder, is_openmetrics=is_openmetrics)
        drawn = [_drawn(page, plan, is_spread=is_spread[plan.shape.name]) for plan in plans]
        theirs = encoder(
            _Shown([_collected(plan, is_spread=is_spread[plan.shape.name]) for plan in plans])
        )
        ours = b"".join(text for family_text in drawn for text in family_text.texts())
        assert ours == theirs.removesuffix(b"# EOF\n")


@given(pages=st.lists(st.lists(row_plans, max_size=4), min_size=1, max_size=4))
def test_a_cached_page_can_be_parsed(pages: list[list[CounterRow]]) -> None:
    """The parser finds each series of the page with its labels and its value, and no other."""
    encoder, _ = negotiate("")
    family_texts, shape = ExpositionCache(), families.LAST_DURATION
    for rows in pages:
        family_text = family_texts.begin(encoder, is_openmetrics=False).family_text(shape)
        shown = {row.labels[:3]: float(row.values[0]) for row in rows}
        for labels, value in shown.items():
            family_text.add(labels, value)
        read = {
            tuple(sample.labels[name] for name in shape.labels): sample.value
            for family in text_families(b"".join(family_text.texts()).decode())
            for sample in family.samples
        }
        # As text, because no NaN is equal to another.
        assert {key: str(value) for key, value in read.items()} == {
            key: str(value) for key, value in shown.items()
        }


def test_only_rows_of_the_last_page_are_cached() -> None:
    """Pipelines that come and go do not fill the memory."""
    family_texts = ExpositionCache()
    for number in range(100):
        page = family_texts.begin(generate_latest, is_openmetrics=False)
        page.family_text(families.WORKSPACE_UP).add((f"workspace {number}",), 1)
    kept = family_texts._starts["dataprep_workspace_up"]
    assert list(kept) == [("workspace 99",)]


def test_a_row_with_too_few_values_is_an_error() -> None:
    """A row that lacks a series raises an error."""
    page = ExpositionCache().begin(generate_latest, is_openmetrics=False)
    family_text = page.spread(families.RUNS, WORDS)
    with pytest.raises(ValueError, match="shorter"):
        family_text.add(("one", "plan_run", "daily"), 1, 2)
    with pytest.raises(ValueError, match="shorter"):
        page.family_text(families.WORKSPACE_UP).add((), 1)


class _Shown:
    """Yields families to the library; those without samples are left out, as on our pages."""

    def __init__(self, shown: Sequence[Family]) -> None:
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        return (family for family in self._shown if family.samples)


def _drawn(page: ExpositionPage, plan: Plan, *, is_spread: bool) -> FamilyText:
    shape = plan.shape
    count = len(shape.labels)
    if shape.form is FamilyType.HISTOGRAM:
        family_text = page.histogram(shape, QUEUE_BOUNDS, exemplars="x")
        for row in plan.rows:
            values = (*row.values[:BUCKETS], row.values[BUCKETS - 1], row.values[-1])
            family_text.add(row.labels[:count], *values, seen=row.exemplars)
    elif is_spread and _may_spread(shape):
        family_text = page.spread(
            shape, WORDS, exemplars="x" if shape.form is FamilyType.COUNTER else ""
        )
        for row in plan.rows:
            family_text.add(row.labels[: count - 1], *row.values[: len(WORDS)], seen=row.exemplars)
    else:
        family_text = page.family_text(shape)
        for row in plan.rows:
            value = 1 if shape.form is FamilyType.INFO else row.values[0]
            family_text.add(row.labels[:count], value, seen=row.exemplars)
    return family_text


def _collected(plan: Plan, *, is_spread: bool) -> Family:
    family = plan.shape.family()
    for row in plan.rows:
        _collect(family, plan.shape, row, is_spread=is_spread and _may_spread(plan.shape))
    return family


def _collect(family: Family, shape: FamilyShape, row: CounterRow, *, is_spread: bool) -> None:
    own = row.labels[: len(shape.labels)]
    spread = [(*own[:-1], word) for word in WORDS] if is_spread else [own]
    match family:
        case CounterMetricFamily():
            for labels, value in zip(spread, row.values, strict=False):
                exemplar = row.exemplars.get(f"x:{labels[-1]}") if is_spread else None
                family.add_metric(labels, value, exemplar=_exemplar(exemplar))
        case GaugeMetricFamily():
            for labels, value in zip(spread, row.values, strict=False):
                family.add_metric(labels, value)
        case HistogramMetricFamily():
            family.add_metric(own, _buckets(row), row.values[-1])
        case InfoMetricFamily():
            family.add_metric([], dict(zip(shape.labels, own, strict=True)))


def _buckets(row: CounterRow) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    shown: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    names = [*(f"{bound:.1f}" for bound in QUEUE_BOUNDS), "+Inf"]
    for place, (name, value) in enumerate(zip(names, row.values, strict=False)):
        exemplar = _exemplar(row.exemplars.get(f"x:{place}"))
        shown.append((name, value) if exemplar is None else (name, value, exemplar))
    return shown


def _exemplar(exemplar: RunExemplar | None) -> Exemplar | None:
    return (
        None
        if exemplar is None
        else Exemplar({"run_id": exemplar.run_id}, exemplar.value, exemplar.at)
    )


def _may_spread(shape: FamilyShape) -> bool:
    return bool(shape.labels) and shape.form in (FamilyType.COUNTER, FamilyType.GAUGE)
