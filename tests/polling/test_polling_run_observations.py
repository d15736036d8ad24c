"""Reading rows: nothing is invented, and approximations are marked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.observations import Observation
from monitor.model.runs import EndBasis, JobCount, RunKind, Source, Status, Trigger, status_of
from monitor.polling.run_observations import (
    flow_run_begun,
    job_group_observation,
    job_summary,
    plan_run_observation,
)
from monitor.workspace.payloads import JobGroupRow, JobRow, PlanRunRow
from tests.polling.conftest import Scenario

START = datetime(2026, 11, 21, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(**fields: object) -> JobRow:
    row = {"id": "1", "native_status": "Complete", "job_type": "wrangle"}
    return JobRow(**{**row, **fields})  # type: ignore[arg-type]  # fields of a row


def observation(row: JobGroupRow) -> Observation:
    return job_group_observation(
        row, workspace="w", source=Source.POLL, observed_at=START, page_url="http://ui", flow=None
    )


def test_the_end_is_derived_from_the_jobs() -> None:
    """Start and end come from the first and the last job; no job reports the end of the group."""
    summary = job_summary(
        [
            job(started_at=at(5), finished_at=at(9), created_at=at(1)),
            job(started_at=at(7), finished_at=at(20), created_at=at(1)),
        ],
        read_at=at(30),
    )

    assert (summary.started_at, summary.finished_at) == (at(5), at(20))
    assert (summary.finished_by, summary.approximate) == (EndBasis.DERIVED, ("finished_at",))


def test_other_stamps_are_approximations() -> None:
    """Without reported times, creation and last write stand in and are marked."""
    summary = job_summary([job(created_at=at(1), updated_at=at(9))], read_at=None)

    assert (summary.started_at, summary.finished_at) == (at(1), at(9))
    assert summary.approximate == ("started_at", "finished_at")
    assert summary.finished_by is EndBasis.LAST_WRITE


def test_one_job_without_its_end_leaves_the_last_write() -> None:
    """The end is derived only where every job reports its own."""
    summary = job_summary([job(finished_at=at(9)), job(updated_at=at(12))], read_at=None)

    assert (summary.finished_at, summary.finished_by) == (at(12), EndBasis.LAST_WRITE)


def test_no_records_invent_nothing() -> None:
    """A job group without job records has no times, no counts and no error."""
    summary = job_summary([], read_at=None)

    assert (summary.started_at, summary.finished_at, summary.error) == (None, None, None)
    assert summary.finished_by is None
    assert (summary.approximate, summary.jobs.counts, summary.jobs.percent_complete) == (
        (),
        (),
        None,
    )


def test_the_first_failure_is_the_error() -> None:
    """Of several errors the one of the job that failed first is reported."""
    summary = job_summary(
        [
            job(native_status="Failed", error="later", finished_at=at(9)),
            job(native_status="Failed", error="first", finished_at=at(3)),
            job(native_status="Failed", error="undated"),
        ],
        read_at=None,
    )

    assert summary.error == "first"


def test_jobs_are_counted_by_our_words_and_theirs() -> None:
    """Both spellings of cancelled are one result; an unknown word is kept."""
    summary = job_summary(
        [
            job(native_status="Canceled"),
            job(native_status="Cancelled"),
            job(native_status="Paused", percent_complete=50),
        ],
        read_at=None,
    )

    assert summary.jobs.counts == (
        JobCount(job_type="wrangle", status="Paused", count=1),
        JobCount(job_type="wrangle", status="canceled", count=2),
    )
    assert not summary.are_over


@pytest.mark.parametrize(("finished_at", "finished_by"), [(at(9), EndBasis.REPORTED), (None, None)])
def test_a_plan_run_reports_its_own_end(
    finished_at: datetime | None, finished_by: EndBasis | None
) -> None:
    """The end that the very run reports is exact; without it nothing stands in."""
    row = PlanRunRow(id="7", native_status="Failed", finished_at=finished_at, updated_at=at(11))
    end = plan_run_observation(row, workspace="w", source=Source.POLL, observed_at=START, plan=None)

    assert (end.finished_at, end.finished_by, end.approximate) == (finished_at, finished_by, ())


@pytest.mark.parametrize(
    ("ran_from", "ran_for", "trigger"),
    [
        ("ui", "recipe", Trigger.MANUAL),
        ("schedule", "recipe", Trigger.SCHEDULE),
        ("api", "recipe", Trigger.API),
        ("ui", "plan", Trigger.PLAN),
        (None, None, Trigger.UNKNOWN),
        ("carrier pigeon", None, Trigger.UNKNOWN),
    ],
)
def test_triggers(ran_from: str | None, ran_for: str | None, trigger: Trigger) -> None:
    """Who started a run is read from two fields; a plan is the more specific one."""
    row = JobGroupRow(id="1", native_status="Created", ran_from=ran_from, ran_for=ran_for)

    assert observation(row).trigger is trigger


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["Created"], Status.PENDING),
        (["Created", "InProgress"], Status.RUNNING),
        (["Failed"], Status.RUNNING),
        (["Hibernating"], Status.RUNNING),
    ],
)
def test_job_groups_show_that_a_flow_run_has_begun(words: list[str], status: Status) -> None:
    """Job groups never show that a flow run has ended, and about when it was created."""
    groups = [
        observation(JobGroupRow(id=str(number), native_status=word, created_at=at(9 - number)))
        for number, word in enumerate(words)
    ]
    begun = flow_run_begun("71", groups)

    assert (begun.key.kind, begun.key.id) == (RunKind.FLOW_RUN, "71")
    assert status_of(begun.native_status) is status
    assert (begun.created_at, begun.approximate) == (at(10 - len(words)), ("created_at",))
    assert begun.started_at is begun.finished_at is None


async def test_the_page_of_a_cloud_drops_the_api_label(unbegun: Scenario) -> None:
    """Links lead to the page that people open; any other host is left as it is."""
    settings = unbegun.client.settings
    urls = {}
    for url in (
        "https://api.clouddataprep.com/v4",
        "https://us1.alteryxcloud.com",
        "http://h:3005",
    ):
        unbegun.client.settings = unbegun.client.requester.settings = type(settings)(
            name="w", url=url
        )
        urls[url] = unbegun.context.page_url

    assert list(urls.values()) == [
        "https://clouddataprep.com",
        "https://us1.alteryxcloud.com",
        "http://h:3005",
    ]


def test_a_bounded_memory_forgets_the_unused() -> None:
    """The item that was used last stays, and the bound holds."""
    memory: BoundedMemory[int, str] = BoundedMemory(2)
    memory.put(1, "a")
    memory.put(2, "b")
    memory.get(1)

    assert memory.put(3, "c") == 2
    assert (memory.get(1), memory.get(2), len(memory)) == ("a", None, 2)
