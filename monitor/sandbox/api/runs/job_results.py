"""The results of a job group: its profile as a document, its files, its publications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from monitor.sandbox.api.calls import Call, Handlers, Reply, all_of
from monitor.sandbox.api.errors import ApiError, Json
from monitor.sandbox.api.runs.profiles import columns_of, profile_of, rows_of
from monitor.sandbox.running.destinations import inserted
from monitor.sandbox.world.records.objects import ImportedDataset
from monitor.sandbox.world.records.runs import NOWHERE, Destinations, JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

LINES = 44  # that the page has room for
CHARACTERS = 90  # of a line
TOP, LEFT, LEADING = 790, 56, 17
TITLE_POINTS, POINTS = 15, 10


def one_page(lines: Sequence[str]) -> bytes:
    """Return a document that shows ``lines``, the first as its title.

    What is too long for the page ends in dots; characters that Western European text does not
    have become question marks.
    """
    shown = [*lines[: LINES - 1], "..."] if len(lines) > LINES else lines
    return _document(_drawing([_fitted(line) for line in shown]))


def _fitted(line: str) -> bytes:
    text = line if len(line) <= CHARACTERS else line[: CHARACTERS - 3] + "..."
    printable = "".join(other_text if other_text.isprintable() else " " for other_text in text)
    escaped = printable.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return escaped.encode("cp1252", "replace")


def _drawing(lines: Sequence[bytes]) -> bytes:
    drawn = [b"BT %d TL %d %d Td /F1 %d Tf" % (LEADING, LEFT, TOP, TITLE_POINTS)]
    for place, line in enumerate(lines):
        if place == 1:
            drawn.append(b"/F1 %d Tf" % POINTS)
        drawn.append(b"(%s) Tj T*" % line)
    return b"\n".join([*drawn, b"ET"])


def _document(drawing: bytes) -> bytes:
    parts = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Font << /F1 5 0 R >> >>",
    )
    document = b"%PDF-1.4\n"
    offsets = []
    for number, part in enumerate(parts, start=1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return document + (
        b"xref\n0 %d\n0000000000 65535 f \n%s"
        b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(parts) + 1, table, len(parts) + 1, len(document))
    )


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


def _job_group(call: Call) -> JobGroup:
    return call.thing(call.world.job_groups, "jobGroup")


def get_inputs(call: Call) -> Reply:
    """Return the datasets that the run works on, through the recipes that it builds upon."""
    job_group = _job_group(call)
    shelf = call.world.imported_datasets
    found = [shelf.get(dataset_id_, with_deleted=True) for dataset_id_ in job_group.dataset_ids]
    return all_of(
        [
            {"name": dataset_id_.name, "inputs": [_input(call, dataset_id_, job_group)]}
            for dataset_id_ in found
            if dataset_id_ is not None
        ]
    )


def _input(call: Call, imported_dataset: ImportedDataset, job_group: JobGroup) -> Json:
    if imported_dataset.uri is not None:
        return {
            "uri": _address(imported_dataset, imported_dataset.uri, job_group),
            "fileType": "FILE",
        }
    queries = [
        inserted(query, imported_dataset.run_parameters, job_group)
        for query in imported_dataset.raw
    ]
    return {
        **_table(call, imported_dataset.connection_id, list(imported_dataset.table_path)),
        "query": queries,
    }


def _address(imported_dataset: ImportedDataset, uri: str, job_group: JobGroup) -> str:
    """Return the file that a run reads, the values of parameters put in."""
    if imported_dataset.dynamic_path is None:
        return inserted(uri, imported_dataset.run_parameters, job_group)
    path = inserted(imported_dataset.dynamic_path, imported_dataset.run_parameters, job_group)
    address = urlsplit(uri)
    if "://" in path or not address.scheme:
        return path
    return (
        f"{address.scheme}://{imported_dataset.dynamic_bucket or address.netloc}/{path.lstrip('/')}"
    )


def _table(call: Call, connection_id: int | None, path: list[str]) -> dict[str, Json]:
    shelf = call.world.connections
    connection = None if connection_id is None else shelf.get(connection_id, with_deleted=True)
    vendor = "unknown" if connection is None else connection.vendor
    host = "" if connection is None or connection.host is None else connection.host
    port = "" if connection is None or connection.port is None else f":{connection.port}"
    return {
        "vendor": vendor,
        "databaseConnectString": f"jdbc:{vendor}://{host}{port}",
        "relationalPath": path[:-1],
        "table": path[-1] if path else "",
        "query": [],
    }


def _made(job_group: JobGroup) -> Destinations:
    """Return where a job group put its results; an unfinished or failed one made none."""
    return job_group.destinations if job_group.status is NativeStatus.COMPLETE else NOWHERE


def get_outputs(call: Call) -> Reply:
    """Return files and tables, without the envelope that other lists have."""
    made = _made(_job_group(call))
    files = [
        {
            "uri": write_setting.path,
            "fileType": "FILE" if write_setting.as_single_file else "DIRECTORY",
            "isPrimaryOutput": index == 0,
        }
        for index, write_setting in enumerate(made.write_settings)
    ]
    tables = [
        {
            **_table(call, publication.connection_id, [*publication.path, publication.table_name]),
            "action": publication.action,
        }
        for publication in made.publications
    ]
    return Reply(body={"files": files, "tables": tables})


def get_publications(call: Call) -> Reply:
    """Return the publications that the run loaded tables by, as they were when it began."""
    render = call.view.table["publications"].render
    return all_of(
        [render(call.view, publication) for publication in _made(_job_group(call)).publications]
    )


def get_profile(call: Call) -> Reply:
    """Read what profiling found in the columns of a finished run."""
    return Reply(body=profile_of(call.world, _profiled(_job_group(call))))


def _profiled(job_group: JobGroup) -> JobGroup:
    """Return a job group that has a profile.

    Raises:
        ApiError: 400, where it was run without profiling, or did not complete.
    """
    if not job_group.profiling_enabled or job_group.status is not NativeStatus.COMPLETE:
        raise ApiError(
            400,
            "ProfilingDataNotFoundException",
            "Profiling data not found",
            f"Job group {job_group.id} does not have profiling data",
        )
    return job_group


def get_pdf(call: Call) -> Reply:
    """Return one page about a run, whatever its state."""
    content = one_page(result_lines(call.world, _job_group(call)))
    return Reply(content=content, content_type="application/pdf")


HANDLERS: Handlers = {
    "getJobGroupInputs": get_inputs,
    "getJobGroupOutputs": get_outputs,
    "getPublicationsForJobGroup": get_publications,
    "getProfilingInformationForJobGroup": get_profile,
    "getProfilingInformationForJobGroupConsistent": get_profile,
    "getJobGroupPdfResults": get_pdf,
}
