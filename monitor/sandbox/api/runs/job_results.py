"""What a job group read and made: inputs, outputs, publications, profile and the PDF of it."""

from __future__ import annotations

from urllib.parse import urlsplit

from monitor.sandbox.api.calls import Call, Handlers, Reply, all_of
from monitor.sandbox.api.errors import ApiError, Json
from monitor.sandbox.api.runs.pdf import one_page
from monitor.sandbox.api.runs.profiles import profile_of
from monitor.sandbox.api.runs.result_page import result_lines
from monitor.sandbox.running.run_parameters import inserted
from monitor.sandbox.world.records.objects import ImportedDataset
from monitor.sandbox.world.records.runs import NOWHERE, Destinations, JobGroup, NativeStatus


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
