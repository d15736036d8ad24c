"""What the page about a run says, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.sandbox.api.runs.profiles import columns_of, rows_of
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World


def result_lines(world: World, job_group: JobGroup) -> list[str]:
    """Return the lines about a run: what it was, when it worked, what it made."""
    flow = world.flows.get(job_group.flow_id, with_deleted=True)
    recipe = world.recipes.get(job_group.recipe_id, with_deleted=True)
    jobs = world.jobs_of(job_group)
    begins = [job.started_at for job in jobs if job.started_at is not None]
    ends = [job.finished_at for job in jobs if job.finished_at is not None]
    return [
        f"Results of job group {job_group.id}: {job_group.status.value}",
        f"Flow: {flow.name if flow else 'unknown'}",
        f"Recipe: {recipe.name if recipe else 'unknown'}",
        f"Started by: {job_group.ran_from.value}",
        f"Created: {_formatted(job_group.created_at)}",
        f"Work began: {_formatted(min(begins, default=None))}",
        f"Work ended: {_formatted(max(ends, default=None) if job_group.status.is_over else None)}",
        f"Rows: {rows_of(world, job_group)}",
        *_results(world, job_group),
    ]


def _formatted(instant: datetime | None) -> str:
    return "not yet" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S} UTC"


def _results(world: World, job_group: JobGroup) -> Iterator[str]:
    """Yield what a complete run made; others made nothing."""
    if job_group.status is not NativeStatus.COMPLETE:
        return
    for setting in job_group.destinations.write_settings:
        yield f"File: {setting.path}"
    for publication in job_group.destinations.publications:
        yield f"Table: {'.'.join((*publication.path, publication.table_name))}"
    if job_group.profiling_enabled:
        for column in columns_of(world, job_group):
            yield (
                f"Column {column.name} ({column.type}): {column.valid} valid, "
                f"{column.invalid} mismatched, {column.empty} missing"
            )
