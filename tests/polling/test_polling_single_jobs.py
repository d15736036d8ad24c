"""Single job records: what is kept of each, what stands in for a time, where they are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from monitor.model.events import RunEvent
from monitor.model.runs import JobCount, JobRecord, RunState, Status
from monitor.polling.run_observations import job_summary
from monitor.workspace.payloads import JobRow
from tests.polling.conftest import Scenario
from tests.polling.job_record_readers import detailed, readers
from tests.polling.tiny_workspace import TinyWorkspace, stamp

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
NEAR_START, NEAR_END = ("started_at",), ("ended_at",)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(word: str, number: int = 1, **times: float) -> JobRow:
    """Return a record with its times in seconds after the start."""
    return JobRow(
        id=str(number),
        native_status=word,
        job_type="wrangle",
        **{f"{name}_at": at(seconds) for name, seconds in times.items()},  # type: ignore[arg-type]  # times alone
    )


def records_of(*rows: JobRow) -> tuple[JobRecord, ...]:
    return job_summary(rows, read_at=None).jobs.records


def record(status: str, started: float | None, ended: float | None, *near: str) -> JobRecord:
    return JobRecord(
        id="1",
        job_type="wrangle",
        status=status,
        started_at=None if started is None else at(started),
        ended_at=None if ended is None else at(ended),
        approximate=near,
    )


def test_reported_times_of_a_job_are_kept_as_they_are() -> None:
    """Where the workspace reports start and end, nothing is approximated."""
    row = job("Complete", created=1, started=3, finished=8, updated=30)

    assert records_of(row) == (record("succeeded", 3, 8),)


def test_a_record_s_creation_and_last_write_stand_in() -> None:
    """Older workspaces report no more; what stands in is marked."""
    assert records_of(job("Failed", created=1, updated=9)) == (
        record("failed", 1, 9, *NEAR_START, *NEAR_END),
    )


def test_a_job_that_waits_or_works_has_no_end() -> None:
    """Its last write is no end, and the creation of one that waits is no start."""
    waits = job("Created", created=1, updated=5)
    works = job("InProgress", created=1, updated=5)

    assert records_of(waits) == (record("pending", None, None),)
    assert records_of(works) == (record("running", 1, None, *NEAR_START),)


def test_a_job_that_never_started_has_no_start() -> None:
    """Where others report a start, one that lacks it was canceled before it began."""
    _, canceled = records_of(
        job("Failed", 2, created=1, started=2, finished=4), job("Canceled", created=1, finished=4)
    )

    assert canceled == record("canceled", None, 4)


def test_no_times_invent_none() -> None:
    """An unknown word is kept, and a job without any stamp is one without times."""
    assert records_of(job("Complete"), job("Paused")) == (
        record("succeeded", None, None),
        record("Paused", None, None),
    )


def test_of_many_jobs_the_failed_ones_are_kept() -> None:
    """Twenty records stay, in their order; all are counted."""
    words = ["Failed" if number in (3, 70, 99) else "Complete" for number in range(100)]
    summary = job_summary([job(word, n) for n, word in enumerate(words)], read_at=None)

    assert summary.jobs.ids == (*map(str, range(18)), "70", "99")
    assert summary.jobs.counts == (
        JobCount(job_type="wrangle", status="failed", count=3),
        JobCount(job_type="wrangle", status="succeeded", count=97),
    )


async def test_records_are_stored_with_the_run_and_not_with_its_events(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The page reads them from the run; the log has the counts alone."""
    first = workspace.now()
    for seconds, kind in ((0, "wrangle"), (4, "filewriter")):
        times = {
            "startedAt": stamp(first + timedelta(seconds=seconds)),
            "finishedAt": stamp(first + timedelta(seconds=seconds + 4)),
        }
        workspace.put_job(7, jobType=kind, **times)
    workspace.put_job_group(7, "Complete")
    async with readers(scenario):
        await scenario.polls.changes.poll()
        state = await detailed(scenario, 7)

    assert state.jobs is not None
    begun = first.replace(microsecond=0)
    assert [(job.job_type, job.status, job.started_at) for job in state.jobs.records] == [
        ("wrangle", "succeeded", begun),
        ("filewriter", "succeeded", begun + timedelta(seconds=4)),
    ]
    stored = await scenario.bus.runs([state.key])
    assert stored[state.key] == state
    events = [recorded.event for recorded in await scenario.bus.events(after=0, limit=99)]
    kept = [event.run.jobs for event in events if isinstance(event, RunEvent) and event.run.jobs]
    assert kept
    assert all(jobs.records == () for jobs in kept)
    assert all(jobs.counts == state.jobs.counts for jobs in kept)


async def test_the_progress_of_an_active_run_shows_its_jobs(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A run that works has its job records before its end, in the live state."""
    workspace.put_job_group(7)
    workspace.put_job(7, "Complete", finishedAt=stamp(workspace.now()))
    workspace.put_job(7, "InProgress", jobType="profile")
    await scenario.polls.changes.poll()
    await scenario.declared["progress"].run()

    (active,) = scenario.live_state.active.values()
    assert active.run.jobs is not None
    assert [job.status for job in active.run.jobs.records] == [Status.SUCCEEDED, Status.RUNNING]


def test_entries_of_an_older_version_are_still_read() -> None:
    """It had ids in the place of records; a run without records takes no more room than before."""
    old = (
        b'{"key":{"workspace":"w","kind":"job_group","id":"7"},"status":"succeeded",'
        b'"jobs":{"ids":["1","2"],'
        b'"counts":[{"job_type":"wrangle","status":"succeeded","count":2}]},'
        b'"confirmed_at":"2026-11-21T10:00:00Z","confirmed_by":"poll"}'
    )
    state = msgspec.json.decode(old, type=RunState)

    assert state.jobs is not None
    assert (state.jobs.ids, state.jobs.counts[0].count) == ((), 2)
    assert b"records" not in msgspec.json.encode(state)
