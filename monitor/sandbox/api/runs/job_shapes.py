"""The payloads of jobs, and of what a job read, wrote and failed with."""

from __future__ import annotations

import json

from msgspec import Struct

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Association, Resource, View, named
from monitor.sandbox.api.response.rendering import CREATOR, STAMPS, columns, kept, reference
from monitor.sandbox.world.records.objects import WriteSetting
from monitor.sandbox.world.records.runs import Job, JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

RESULTS_OF_A_GROUP = 1_000  # how many ids of results each job group has


class ScriptResult(Struct, frozen=True, kw_only=True):
    """One thing that a job group made: a file, or where ``setting`` is None a table."""

    id: int
    setting: WriteSetting | None
    is_primary: bool
    container: str
    path: tuple[str, ...]


def job(view: View, job: Job) -> dict[str, Json]:
    del view
    document: dict[str, Json] = {
        **kept(job, "id", "status", "jobType", "sampleSize", "percentComplete", "hasWarnings"),
        **kept(job, "lastHeartbeatAt", "startedAt", "finishedAt", "createdAt", "updatedAt"),
        "jobGroup": reference(job.job_group_id),
        "errorMessage": None if job.error_message is None else {"message": job.error_message},
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
    """Return what a job made, once it is done: a file, or the tables of a wrangling.

    A wrangling has the files too where nothing else writes them: in the cloud, whose own job does.
    """
    group = _group_of(view, job)
    if group is None or job.status is not NativeStatus.COMPLETE:
        return []
    jobs = view.world.jobs_of(group)
    writers = [item.id for item in jobs if item.job_type == "filewriter"]
    has_own_writers = bool(writers) and all(item.cp_job_id is None for item in jobs)
    results = _all_results(group)
    if job.job_type == "wrangle":
        return [result for result in results if result.setting is None or not has_own_writers]
    own = _setting_of(view, job) if job.id in writers and has_own_writers else None
    return [result for result in results if own is not None and result.setting is own]


def _all_results(group: JobGroup) -> list[ScriptResult]:
    places: list[tuple[WriteSetting | None, str, tuple[str, ...]]] = [
        (None, publication.table_name, publication.path)
        for publication in group.destinations.publications
    ]
    for setting in group.destinations.write_settings:
        bucket, _, path = setting.path.rpartition("://")[2].partition("/")
        places.append((setting, bucket, tuple(path.strip("/").split("/"))))
    return [
        ScriptResult(
            id=group.id * RESULTS_OF_A_GROUP + index,
            setting=setting,
            is_primary=index == 0,
            container=container,
            path=path,
        )
        for index, (setting, container, path) in enumerate(places)
    ]


def result_of(world: World, result_id: int) -> tuple[JobGroup, ScriptResult] | None:
    """Return a result with the job group that made it; None where there is none by this id."""
    group = world.job_groups.get(result_id // RESULTS_OF_A_GROUP)
    if group is None or group.status is not NativeStatus.COMPLETE:
        return None
    return next(((group, item) for item in _all_results(group) if item.id == result_id), None)


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
        columns={**STAMPS, **columns("status", "jobType")},
        associations=named(
            CREATOR,
            Association("jobGroup", _group_of, target="jobgroups"),
            Association(
                "errorMessage",
                lambda _, record: None if record.error_message is None else record,
                target="joberrors",
            ),
            Association("scriptResults", _results_of, many=True),
            Association(
                "fileWriterJob",
                lambda _, record: record if record.job_type == "filewriter" else None,
                target="filewriterjobs",
                inline=True,
            ),
        ),
    ),
    "joberrors": Resource(plural="joberrors", render=_error, columns=IDENTITY),
    "filewriterjobs": Resource(
        plural="filewriterjobs",
        render=_writer,
        columns=IDENTITY,
        associations=named(Association("writeSetting", _setting_of, target="writesettings")),
    ),
    "scriptresults": Resource(
        plural="scriptresults",
        render=_script_result,
        columns=IDENTITY,
        associations=named(
            Association("storageLocation", lambda _, record: record, target="storagelocations")
        ),
    ),
    "storagelocations": Resource(
        plural="storagelocations", render=_storage_location, columns=IDENTITY
    ),
}
