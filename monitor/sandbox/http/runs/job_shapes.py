"""The payloads of jobs, and of what a job read, wrote and failed with."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.shapes import CREATOR, STAMPS
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.objects import WriteSetting
from monitor.sandbox.records.runs import Job, JobGroup, NativeStatus


class ScriptResult(Struct, frozen=True, kw_only=True):
    """One thing that the wrangling of a job group made; its place is a table's or a file's."""

    id: int
    is_primary: bool
    container: str
    path: tuple[str, ...]


def job(view: View, one: Job) -> dict[str, Json]:
    del view
    document: dict[str, Json] = {
        "id": one.id,
        "status": one.status.value,
        "jobType": one.job_type,
        "sampleSize": one.sample_size,
        "percentComplete": one.percent_complete,
        "jobGroup": reference(one.job_group_id),
        "errorMessage": None if one.error_message is None else {"message": one.error_message},
        "hasWarnings": one.has_warnings,
        "lastHeartbeatAt": stamp(one.last_heartbeat_at),
        "startedAt": stamp(one.started_at),
        "finishedAt": stamp(one.finished_at),
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
        "creator": reference(one.creator_id),
    }
    if one.execution_language is not None:
        document["executionLanguage"] = one.execution_language
    if one.cp_job_id is not None:
        document["cpJobId"] = one.cp_job_id
    return document


def _error(view: View, one: Job) -> dict[str, Json]:
    del view
    return {"message": one.error_message}


def _group_of(view: View, one: Job) -> JobGroup | None:
    return view.world.job_groups.get(one.job_group_id, with_deleted=True)


def _setting_of(view: View, one: Job) -> WriteSetting | None:
    """Return what a writing job writes: the files of a job group are written in their order."""
    group = _group_of(view, one)
    if group is None:
        return None
    jobs = [job.id for job in view.world.jobs_of(group) if job.job_type == one.job_type]
    settings = group.destinations.write_settings
    place = jobs.index(one.id) if one.id in jobs else len(settings)
    return settings[place] if place < len(settings) else None


def _results_of(view: View, one: Job) -> list[ScriptResult]:
    """Return what a wrangling made, once it is done: tables first, then files."""
    group = _group_of(view, one)
    if one.job_type != "wrangle" or one.status is not NativeStatus.COMPLETE or group is None:
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


def _script_result(view: View, one: ScriptResult) -> dict[str, Json]:
    del view
    return {
        "id": one.id,
        "isPrimaryOutput": one.is_primary,
        "storageLocation": reference(one.id),
    }


def _storage_location(view: View, one: ScriptResult) -> dict[str, Json]:
    del view
    # A list in a text: clients decode it once more.
    return {"id": one.id, "container": one.container, "path": json.dumps(one.path)}


def _writer(view: View, one: Job) -> dict[str, Json]:
    setting = _setting_of(view, one)
    return {"writeSetting": reference(None if setting is None else setting.id)}


IDENTITY = {"id": lambda _, one: one.id}

JOB_RESOURCES: dict[str, Resource] = {
    "jobs": Resource(
        plural="jobs",
        render=job,
        columns={
            **STAMPS,
            "status": lambda _, one: one.status.value,
            "jobType": lambda _, one: one.job_type,
        },
        associations={
            "creator": CREATOR,
            "jobgroup": Association(key="jobGroup", target="jobgroups", find=_group_of),
            "errormessage": Association(
                key="errorMessage",
                target="joberrors",
                find=lambda _, one: None if one.error_message is None else one,
            ),
            "scriptresults": Association(
                key="scriptResults", target="scriptresults", find=_results_of, many=True
            ),
            "filewriterjob": Association(
                key="fileWriterJob",
                target="filewriterjobs",
                find=lambda _, one: one if one.job_type == "filewriter" else None,
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
                key="storageLocation", target="storagelocations", find=lambda _, one: one
            )
        },
    ),
    "storagelocations": Resource(
        plural="storagelocations", render=_storage_location, columns=IDENTITY
    ),
}
