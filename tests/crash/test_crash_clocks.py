"""Clocks of a daemon and its store are set while it works: nothing is lost, nothing is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.eventually import eventually, pause
from tests.crash import store_copy
from tests.crash.conftest import ReportCounts
from tests.crash.scenario import Scenario, scenario
from tests.postgres_server import PostgresServer
from tests.set_clock import SetClock

_HOUR, _FAR = 3_600.0, 40 * 86_400.0
_SEEN_SECONDS = 1.5  # within which the daemon sees that its clock was set
_JOB_GROUPS = 15
_RETENTION_SECONDS = 100.0  # within which it comes once
_LONGEST_SECONDS = 600  # retention comes once a minute; on a busy machine the rest takes as long
_LOGS_AND_MEMORY = (
    "SELECT min(position), (SELECT count(*) FROM run WHERE kind = 'job_group'),"
    " (SELECT array_agg(fingerprint) FROM callback) FROM event GROUP BY shard"
)


async def let_some_end(crash: Scenario) -> None:
    """Let runs begin and end, with a callback of each; `Scenario.check` compares the ends."""
    job_groups = crash.start_job_groups(_JOB_GROUPS, work_seconds=(0.2, 1))
    await crash.until_ended()
    await crash.sender.send([(str(run.id), str(run.status)) for run in job_groups])
    await crash.until_received("started", job_groups)


async def test_a_clock_that_is_set_loses_nothing(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Forward and back by 40 days while runs end: every end is reported once."""
    clock = SetClock(tmp_path / "clock")
    async with scenario(tmp_path, seed=seed, environment=clock.environment) as crash:
        for seconds in (_FAR, -_FAR):
            clock.ahead_by(seconds)
            await pause(_SEEN_SECONDS)
            await let_some_end(crash)
        events = await crash.check()
        report_counts("a clock that is set", seed=seed, events=events, lost=crash.lost)


@pytest.mark.soak
async def test_steps_of_the_clock_lose_and_delete_nothing(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """A second, an hour and 40 days, both ways; retention comes while it is 40 days ahead."""
    clock = SetClock(tmp_path / "clock")
    async with scenario(tmp_path, seed=seed, environment=clock.environment) as crash:
        for seconds in (0.0, 1.0, -1.0, _HOUR, -_HOUR, -_FAR, _FAR):
            clock.ahead_by(seconds)
            await pause(_SEEN_SECONDS)
            await let_some_end(crash)

        async def was_judged() -> bool:
            behind = await crash.daemon.face.metric("dataprep_monitor_retention_behind_seconds")
            return bool(behind)

        await eventually(was_judged, why=lambda: crash.daemon.log[-3000:], within_seconds=90)
        clock.ahead_by(0.0)
        await pause(_SEEN_SECONDS)
        await let_some_end(crash)
        events = await crash.check()
        assert store_copy.oldest_position(crash.store) == 1
        report_counts("clocks that are set", seed=seed, events=events, lost=crash.lost)


class SetServer:
    """A database server and its clock; tests read what retention has left."""

    def __init__(self) -> None:
        self.server = PostgresServer()
        self.server.folder.mkdir(exist_ok=True)
        self.clock = SetClock(self.server.folder / "clock")
        self.server.variables = [
            f"{name}={value}" for name, value in self.clock.environment.items()
        ]
        self.database = ""

    async def judged_at(self) -> object:
        """Return by which time retention has judged ages last."""
        ((judged_at,),) = await self.server.fetch(
            "SELECT judged_at FROM store", database=self.database
        )
        return judged_at


@pytest.fixture
async def set_server() -> AsyncIterator[SetServer]:
    made = SetServer()
    await made.server.start()
    made.database = await made.server.create_database()
    yield made
    made.server.discard()


@pytest.mark.soak
@pytest.mark.timeout(_LONGEST_SECONDS)
@pytest.mark.parametrize("whose", ["daemon", "database", "both"])
async def test_steps_of_the_clocks_about_a_database_lose_and_delete_nothing(
    tmp_path: Path, set_server: SetServer, seed: int, report_counts: ReportCounts, whose: str
) -> None:
    """A second, an hour and 40 days, both ways; retention comes while they are 40 days ahead."""
    own = SetClock(tmp_path / "clock")
    clocks = {"daemon": [own], "database": [set_server.clock], "both": [own, set_server.clock]}
    url = f"{set_server.server.url(set_server.database)}?sslmode=disable"
    async with scenario(tmp_path, seed=seed, environment=own.environment, database=url) as crash:

        async def set_clocks(seconds: float) -> None:
            for clock in clocks[whose]:
                clock.ahead_by(seconds)
            await pause(_SEEN_SECONDS)
            await let_some_end(crash)

        async def retention() -> tuple[object, object]:
            # It judges ages, or says why it does not.
            return crash.daemon.log.count('"task": "retention"'), await set_server.judged_at()

        for seconds in (0.0, 1.0, -1.0, _HOUR, -_HOUR, -_FAR, _FAR):
            await set_clocks(seconds)
        before = await retention()

        async def has_come() -> bool:
            return await retention() != before

        await eventually(
            has_come, why=lambda: crash.daemon.log[-3000:], within_seconds=_RETENTION_SECONDS
        )
        await set_clocks(0.0)
        events = await crash.until_agreed()
        assert events.ambiguous() == []
        assert events.out_of_order() == {}
        ((oldest, runs, fingerprints),) = await set_server.server.fetch(
            _LOGS_AND_MEMORY, database=set_server.database
        )
        assert await crash.daemon.end() == 0
        assert "Traceback" not in crash.daemon.log
    assert oldest == 1
    assert runs >= 8 * _JOB_GROUPS
    assert crash.sender.fingerprints - set(fingerprints) == set()
    report_counts(f"set clocks: {whose}", seed=seed, events=len(events.events))
