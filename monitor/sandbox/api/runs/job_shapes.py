"""The payloads of jobs, and of what a job read, wrote and failed with."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Association, Resource, View
from monitor.sandbox.api.response.rendering import CREATOR, STAMPS, reference, stamp
from monitor.sandbox.world.records.objects import WriteSetting
from monitor.sandbox.world.records.runs import Job, JobGroup, NativeStatus


class ScriptResult(Struct, frozen=True, kw_only=True):
    """One thing that the wrangling of a job group made; its place is a table's or a file's."""

    id: int
    is_primary: bool
    container: str
    path: tuple[str, ...]


def job(view: View, job: Job) -> dict[str, Json]:
    del view
    document: dict[str, Json] = {
        "id": job.id,
        "status": job.status.value,
        "jobType": job.job_type,
        "sampleSize": job.sample_size,
        "percentComplete": job.percent_complete,
        "jobGroup": reference(job.job_group_id),
        "errorMessage": None if job.error_message is None else {"message": job.error_message},
        "hasWarnings": job.has_warnings,
        "lastHeartbeatAt": stamp(job.last_heartbeat_at),
        "startedAt": stamp(job.started_at),
        "finishedAt": stamp(job.finished_at),
        "createdAt": stamp(job.created_at),
        "updatedAt": stamp(job.updated_at),
        "creator": reference(job.creator_id),
    }
    if job.execution_language is not None:
        document["executionLanguage"] = job.execution_language
    if job.cp_job_id is not None:
        document["cpJobId"] = job.cp_job_id
    return document


def _error(view: View, job: Job) -> dict[str, Json]:
    del view
    return {"message": job.error_message}


def _group_of(view: View, job: Job) -> JobGroup | None:
    return view.world.job_groups.get(job.job_group_id, with_deleted=True)


def _setting_of(view: View, other_job: Job) -> WriteSetting | None:
    """Return what a writing job writes: the files of a job group are written in their order."""
    group = _group_of(view, other_job)
    if group is None:
        return None
    jobs = [job.id for job in view.world.jobs_of(group) if job.job_type == other_job.job_type]
    settings = group.destinations.write_settings
    place = jobs.index(other_job.id) if other_job.id in jobs else len(settings)
    return settings[place] if place < len(settings) else None


def _results_of(view: View, job: Job) -> list[ScriptResult]:
    """Return what a wrangling made, once it is done: tables first, then files."""
    group = _group_of(view, job)
    if job.job_type != "wrangle" or job.status is not NativeStatus.COMPLETE or group is None:
        return []
    places = [
        (publication.id, publication.table_name, publication.path)
        for publication in group.destinations.publications
    ]
    for setting in group.destinations.write_settings:
        address = urlsplit(setting.path)
        places.append((setting.id, address.netloc, tuple(address.path.strip("/").split("/"))))
    return [
        ScriptResult(id=place_id, is_primary=index == 0, container=container, path=path)
        for index, (place_id, container, path) in enumerate(places)
    ]


def _script_result(view: View, script_result: ScriptResult) -> dict[str, Json]:
    del view
    return {
        "id": script_result.id,
        "isPrimaryOutput": script_result.is_primary,
        "storageLocation": reference(script_result.id),
    }


def _storage_location(view: View, script_result: ScriptResult) -> dict[str, Json]:
    del view
    # A list in a text: clients decode it once more.
    return {
        "id": script_result.id,
        "container": script_result.container,
        "path": json.dumps(script_result.path),
    }


def _writer(view: View, job: Job) -> dict[str, Json]:
    setting = _setting_of(view, job)
    return {"writeSetting": reference(None if setting is None else setting.id)}


IDENTITY = {"id": lambda _, record: record.id}

JOB_RESOURCES: dict[str, Resource] = {
    "jobs": Resource(
        plural="jobs",
        render=job,
        columns={
            **STAMPS,
            "status": lambda _, run: run.status.value,
            "jobType": lambda _, record: record.job_type,
        },
        associations={
            "creator": CREATOR,
            "jobgroup": Association(key="jobGroup", target="jobgroups", find=_group_of),
            "errormessage": Association(
                key="errorMessage",
                target="joberrors",
                find=lambda _, record: None if record.error_message is None else record,
            ),
            "scriptresults": Association(
                key="scriptResults", target="scriptresults", find=_results_of, many=True
            ),
            "filewriterjob": Association(
                key="fileWriterJob",
                target="filewriterjobs",
                find=lambda _, record: record if record.job_type == "filewriter" else None,
                inline=True,
            ),
        },
    ),
    "joberrors": Resource(plural="joberrors", render=_error, columns=IDENTITY),
    "filewriterjobs": Resource(
        plural="filewriterjobs",
        render=_writer,
        columns=IDENTITY,
        associations={
            "writesetting": Association(
                key="writeSetting", target="writesettings", find=_setting_of
            )
        },
    ),
    "scriptresults": Resource(
        plural="scriptresults",
        render=_script_result,
        columns=IDENTITY,
        associations={
            "storagelocation": Association(
                key="storageLocation", target="storagelocations", find=lambda _, record: record
            )
        },
    ),
    "storagelocations": Resource(
        plural="storagelocations", render=_storage_location, columns=IDENTITY
    ),
}
