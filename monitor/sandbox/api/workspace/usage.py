"""The usage of the workspace, computed from the jobs that worked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_field, not_found
from monitor.sandbox.api.request.listing import EARLIEST_SECONDS, EPOCH, LATEST_SECONDS
from monitor.sandbox.api.request.parameters import INTEGER
from monitor.sandbox.api.response.rendering import stamp
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.records.runs import Job, JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

Key = TypeVar("Key")

PROJECT_ID = "sandbox"
ENTITLEMENT_ID = "sandbox-entitlement"
ENGINE = "photon"  # of jobs that name none: they move data without computing
A_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
LATEST = EPOCH + timedelta(seconds=LATEST_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From ``start`` on, and before ``end``."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one job has used. It counts where the job began, and only once it is over."""

    job_group: JobGroup
    job: Job
    started_at: datetime
    seconds: float


def work_in(world: World, period: Period) -> list[Work]:
    """Return the work of all jobs that began in a period and are over, oldest run first."""
    return [
        Work(
            job_group=job_group,
            job=job,
            started_at=job.started_at,
            seconds=(job.finished_at - job.started_at).total_seconds(),
        )
        for job_group in world.job_groups
        for job in world.jobs_of(job_group)
        if job.started_at is not None
        and job.finished_at is not None
        and period.start <= job.started_at < period.end
    ]


def list_compute_usage(call: Call) -> Reply:
    """Return the seconds of work by day and engine."""
    period = _period(call.path_values)
    work = work_in(call.world, period)

    def day_and_engine(work: Work) -> tuple[str, str]:
        return work.started_at.date().isoformat(), work.job.execution_language or ENGINE

    rows = [
        {"date": date, "engine": engine, **totals(part)}
        for (date, engine), part in sorted(_grouped(work, day_and_engine).items())
    ]
    return _reply(period, work, rows)


def report_in_detail(call: Call) -> Reply:
    """Return the seconds of work of each job group."""
    period = _period(call.path_values)
    work = work_in(call.world, period)
    rows = [_row_of_job_group(call.world, part) for part in _grouped(work, _job_group_id).values()]
    return _reply(period, work, rows)


def list_usage_of_project(call: Call) -> Reply:
    """Return what each person has used in the workspace's project."""
    return _user_usage(call, "projectId", PROJECT_ID)


def list_usage_of_entitlement(call: Call) -> Reply:
    """Return what each person has used of the workspace's entitlement."""
    return _user_usage(call, "entitlementId", ENTITLEMENT_ID)


def totals(work: Sequence[Work]) -> dict[str, Json]:
    """Return the sums that every usage answer and each of its rows shows."""
    return {
        "jobGroups": len({other_work.job_group.id for other_work in work}),
        "jobs": len(work),
        "computeSeconds": round(sum(other_work.seconds for other_work in work), 3),
    }


def _user_usage(call: Call, name: str, known: str) -> Reply:
    if call.path_values[0] != known:
        raise not_found(name.removesuffix("Id"), call.path_values[0])
    period = _period(call.path_values[1:])
    work = work_in(call.world, period)
    by_person = _grouped(work, lambda item: item.job_group.creator_id)
    rows = [
        _row_of_person(person, by_person.get(person.id, [])) for person in call.world.people.live()
    ]
    return _reply(period, work, rows, **{name: known, "users": len(by_person)})


def _row_of_person(person: Person, work: Sequence[Work]) -> dict[str, Json]:
    return {
        "personId": person.id,
        "email": person.email,
        **totals(work),
        "lastUsedAt": stamp(max((other_work.started_at for other_work in work), default=None)),
    }


def _row_of_job_group(world: World, work: Sequence[Work]) -> dict[str, Json]:
    job_group = work[0].job_group
    recipe = world.recipes.get(job_group.recipe_id, with_deleted=True)
    flow = world.flows.get(job_group.flow_id, with_deleted=True)
    languages = (other_work.job.execution_language for other_work in work)
    return {
        "jobGroupId": job_group.id,
        "flowId": job_group.flow_id,
        "flowName": flow.name if flow else None,
        "recipeId": job_group.recipe_id,
        "recipeName": recipe.name if recipe else None,
        "personId": job_group.creator_id,
        "ranfrom": job_group.ran_from.value,
        "status": job_group.status.value,
        "engine": next((language for language in languages if language is not None), ENGINE),
        "startedAt": stamp(min(other_work.started_at for other_work in work)),
        "failedJobs": sum(other_work.job.status is NativeStatus.FAILED for other_work in work),
        **totals(work),
    }


def _reply(period: Period, work: Sequence[Work], rows: Sequence[Json], **others: Json) -> Reply:
    head = {"from": stamp(period.start), "to": stamp(period.end), **others}
    return Reply(body={**head, **totals(work), "data": list(rows)})


def _grouped(work: Iterable[Work], key: Callable[[Work], Key]) -> dict[Key, list[Work]]:
    found: dict[Key, list[Work]] = {}
    for other_work in work:
        found.setdefault(key(other_work), []).append(other_work)
    return found


def _job_group_id(work: Work) -> int:
    return work.job_group.id


def _period(path_values: Sequence[str]) -> Period:
    """Return the period that the path names.

    Raises:
        ApiError: 400, naming the part that is no instant, or an end before its start.
    """
    start, end = _instant("from", path_values[0]), _instant("to", path_values[1])
    if A_DATE.fullmatch(path_values[1]):
        end = min(end, LATEST - timedelta(days=1)) + timedelta(days=1)
    if end < start:
        raise bad_field("to", "must not be before from")
    return Period(start=start, end=end)


def _instant(name: str, text: str) -> datetime:
    """Return what a date, an instant or epoch milliseconds mean; without a zone it is UTC.

    Raises:
        ApiError: 400, naming the part of the path.
    """
    if INTEGER.fullmatch(text):
        seconds = int(text) / 1000
        return EPOCH + timedelta(seconds=max(EARLIEST_SECONDS, min(seconds, LATEST_SECONDS)))
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise bad_field(name, "must be a date, an instant or epoch milliseconds") from exc


HANDLERS: Handlers = {
    "listComputeUsage": list_compute_usage,
    "getTheUsageDetailedReportForThePeriod": report_in_detail,
    "listUserUsagesForProject": list_usage_of_project,
    "listUserUsagesForEntitlement": list_usage_of_entitlement,
}
