"""What is shown of a workspace beyond its runs, within what the budget has left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from monitor.model.beyond import Figures, OutputQuality, ValueCounts
from monitor.model.knowledge import WorkspaceStanding
from monitor.outputs.metrics.families import (
    BEYOND_RUNS,
    CONNECTION_UP,
    OBJECTS,
    OUTPUT_VALUES,
    TOKEN_EXPIRY,
    USAGE,
    Shape,
)
from monitor.outputs.metrics.labels import OTHER_LABEL, PipelineId, by_number, labels_by_id
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.sheets import Labels, Page, Sheet

QUALITIES = ("valid", "mismatched", "missing")
_OUTPUTS = 500  # of one workspace; the others are shown together

Row = tuple[Labels, tuple[float, ...]]


class BeyondLayout(Struct, frozen=True, kw_only=True):
    """The rows of each family, and the series that are left out: metric, whose, how many."""

    rows: Mapping[str, Sequence[Row]]
    dropped: Mapping[tuple[str, str], int]


class _Room:
    """The series that the budget has left."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.rows: dict[str, list[Row]] = {shape.name: [] for shape in BEYOND_RUNS}
        self.dropped: dict[tuple[str, str], int] = {}

    def add(self, shape: Shape, labels: Labels, *values: float) -> None:
        if len(values) > self.left:
            self.dropped[shape.name, "/".join(labels)] = len(values)
            return
        self.left -= len(values)
        self.rows[shape.name].append((labels, values))


def lay_out_beyond(
    picture: Picture, *, room: int, pipelines: Mapping[PipelineId, str]
) -> BeyondLayout:
    """Decide what is shown; ``pipelines`` are those with series of their own, and their labels."""
    rows = _Room(room)
    for one in picture.workspaces:
        _lay_out_figures(one, picture, rows)
        connections = [each for each in one.beyond.connections if each.until >= picture.now]
        labels = labels_by_id((each.id, each.name) for each in connections)
        for each in connections:
            rows.add(CONNECTION_UP, (one.workspace, labels[each.id]), each.is_up)
        _lay_out_outputs(one, pipelines, rows)
    return BeyondLayout(rows=rows.rows, dropped=rows.dropped)


def beyond_families(layout: BeyondLayout, page: Page) -> Iterator[Sheet]:
    """Yield the families, each when it is full."""
    for shape in BEYOND_RUNS:
        is_spread = shape is OUTPUT_VALUES
        sheet = page.spread(shape, QUALITIES) if is_spread else page.sheet(shape)
        for labels, values in layout.rows[shape.name]:
            sheet.add(labels, *values)
        yield sheet


def _lay_out_figures(standing: WorkspaceStanding, picture: Picture, rows: _Room) -> None:
    beyond = standing.beyond
    told: tuple[tuple[Shape, Figures | None], ...] = (
        (OBJECTS, beyond.objects),
        (TOKEN_EXPIRY, beyond.tokens),
        (USAGE, beyond.usage),
    )
    for shape, figures in told:
        # What could not be read again for long is not repeated.
        if figures is not None and figures.until >= picture.now:
            for name, value in sorted(figures.values.items()):
                rows.add(shape, (standing.workspace, name), value)


def _lay_out_outputs(
    standing: WorkspaceStanding, pipelines: Mapping[PipelineId, str], rows: _Room
) -> None:
    """Show outputs one by one, and those without a place of their own as one."""
    outputs = [one for one in standing.beyond.outputs if one.counts.total]
    outputs.sort(key=lambda one: (*by_number(one.pipeline.id), *by_number(one.id)))
    named = [one for one in outputs if _pipeline_id(standing, one) in pipelines]
    places = min(_OUTPUTS, rows.left // len(QUALITIES))
    if len(outputs) > min(places, len(named)):
        places -= 1  # for those that are shown as one
    own = named[: max(0, places)]
    shown = {(one.pipeline.id, one.id) for one in own}
    rest = [one for one in outputs if (one.pipeline.id, one.id) not in shown]
    labels = _output_labels(own)
    for one in own:
        pipeline = pipelines[_pipeline_id(standing, one)]
        output = labels[one.pipeline.id, one.id]
        rows.add(OUTPUT_VALUES, (standing.workspace, pipeline, output), *_ratios([one.counts]))
    if rest:
        together = _ratios([one.counts for one in rest])
        rows.add(OUTPUT_VALUES, (standing.workspace, OTHER_LABEL, OTHER_LABEL), *together)


def _pipeline_id(standing: WorkspaceStanding, one: OutputQuality) -> PipelineId:
    return standing.workspace, one.pipeline.kind, one.pipeline.id


def _output_labels(outputs: Iterable[OutputQuality]) -> dict[tuple[str, str], str]:
    named: dict[str, list[tuple[str, str | None]]] = {}
    for one in outputs:
        named.setdefault(one.pipeline.id, []).append((one.id, one.name))
    return {
        (pipeline, output): label
        for pipeline, found in named.items()
        for output, label in labels_by_id(found).items()
    }


def _ratios(counts: Sequence[ValueCounts]) -> tuple[float, ...]:
    total = sum(one.total for one in counts)
    return tuple(sum(getattr(one, quality) for one in counts) / total for quality in QUALITIES)
