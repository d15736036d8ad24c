"""The inventory of a workspace as series, within what the budget has left. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from monitor.model.inventory import Figures, OutputQuality, ValueCounts
from monitor.model.live_state import REFRESH_TOKEN, WorkspaceStatus
from monitor.outputs.metrics.exposition_cache import ExpositionPage, FamilyText, LabelValues
from monitor.outputs.metrics.families import (
    CONNECTION_UP,
    INVENTORY,
    OBJECTS,
    OUTPUT_VALUES,
    TOKEN_EXPIRY,
    USAGE,
)
from monitor.outputs.metrics.family_shapes import FamilyShape
from monitor.outputs.metrics.labels import OTHER_LABEL, PipelineId, by_number, labels_by_id
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot

QUALITIES = ("valid", "mismatched", "missing")
_OUTPUTS = 500  # of one workspace; the others are shown together

InventoryRow = tuple[LabelValues, tuple[float, ...]]
SeriesByMetric = Mapping[str, int]


class InventoryLayout(Struct, frozen=True, kw_only=True):
    """The rows of each family, and the series that are left out, by their owner."""

    rows: Mapping[str, Sequence[InventoryRow]]
    dropped: Mapping[Hashable, SeriesByMetric]


class _Room:
    """The series that the budget has left."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.rows: dict[str, list[InventoryRow]] = {shape.name: [] for shape in INVENTORY}
        self.dropped: dict[Hashable, SeriesByMetric] = {}

    def add(self, shape: FamilyShape, labels: LabelValues, *values: float) -> None:
        if len(values) > self.left:
            self.dropped[shape.name, labels] = {shape.name: len(values)}
            return
        self.left -= len(values)
        self.rows[shape.name].append((labels, values))


def lay_out_inventory(
    snapshot: MetricsSnapshot, *, room: int, pipelines: Mapping[PipelineId, str]
) -> InventoryLayout:
    """Decide what is shown; ``pipelines`` are those with series of their own, and their labels."""
    rows = _Room(room)
    for workspace in snapshot.workspaces:
        _lay_out_figures(workspace, snapshot, rows)
        connections = [
            each for each in workspace.inventory.connections if each.until >= snapshot.now
        ]
        labels = labels_by_id((each.id, each.name) for each in connections)
        for each in connections:
            rows.add(CONNECTION_UP, (workspace.workspace, labels[each.id]), each.is_up)
        _lay_out_outputs(workspace, pipelines, rows)
    return InventoryLayout(rows=rows.rows, dropped=rows.dropped)


def inventory_families(layout: InventoryLayout, page: ExpositionPage) -> Iterator[FamilyText]:
    """Yield the families, each when it is full."""
    for shape in INVENTORY:
        is_spread = shape is OUTPUT_VALUES
        family_text = page.spread(shape, QUALITIES) if is_spread else page.family_text(shape)
        for labels, values in layout.rows[shape.name]:
            family_text.add(labels, *values)
        yield family_text


def _lay_out_figures(status: WorkspaceStatus, snapshot: MetricsSnapshot, rows: _Room) -> None:
    inventory = status.inventory
    shown: tuple[tuple[FamilyShape, Figures | None], ...] = (
        (OBJECTS, inventory.objects),
        (TOKEN_EXPIRY, inventory.tokens),
        (USAGE, inventory.usage),
    )
    if status.token is not None and status.token.pair_expires_at is not None:
        stamp = status.token.pair_expires_at.timestamp()
        rows.add(TOKEN_EXPIRY, (status.workspace, REFRESH_TOKEN), stamp)
    for shape, figures in shown:
        # What could not be read again for long is not repeated.
        if figures is not None and figures.until >= snapshot.now:
            for name, value in sorted(figures.values.items()):
                rows.add(shape, (status.workspace, name), value)


def _lay_out_outputs(
    status: WorkspaceStatus, pipelines: Mapping[PipelineId, str], rows: _Room
) -> None:
    """Show outputs one by one, and those without a place of their own as one."""
    outputs = [output for output in status.inventory.outputs if output.counts.total]
    outputs.sort(key=lambda output: (*by_number(output.pipeline.id), *by_number(output.id)))
    named = [output for output in outputs if _pipeline_id(status, output) in pipelines]
    places = min(_OUTPUTS, rows.left // len(QUALITIES))
    if len(outputs) > min(places, len(named)):
        places -= 1  # for those that are shown as one
    own = named[: max(0, places)]
    shown_ids = {(output.pipeline.id, output.id) for output in own}
    rest = [output for output in outputs if (output.pipeline.id, output.id) not in shown_ids]
    labels = _output_labels(own)
    for output in own:
        pipeline = pipelines[_pipeline_id(status, output)]
        label = labels[output.pipeline.id, output.id]
        rows.add(OUTPUT_VALUES, (status.workspace, pipeline, label), *_ratios([output.counts]))
    if rest:
        together = _ratios([output.counts for output in rest])
        rows.add(OUTPUT_VALUES, (status.workspace, OTHER_LABEL, OTHER_LABEL), *together)


def _pipeline_id(status: WorkspaceStatus, output_quality: OutputQuality) -> PipelineId:
    return status.workspace, output_quality.pipeline.kind, output_quality.pipeline.id


def _output_labels(outputs: Iterable[OutputQuality]) -> dict[tuple[str, str], str]:
    named: dict[str, list[tuple[str, str | None]]] = {}
    for output in outputs:
        named.setdefault(output.pipeline.id, []).append((output.id, output.name))
    return {
        (pipeline, output): label
        for pipeline, outputs_of_it in named.items()
        for output, label in labels_by_id(outputs_of_it).items()
    }


def _ratios(counts: Sequence[ValueCounts]) -> tuple[float, ...]:
    total = sum(count.total for count in counts)
    return tuple(sum(getattr(count, quality) for count in counts) / total for quality in QUALITIES)
