"""Restarts beside a real workspace: what did not change is not published as changed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.secrets import Secret
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorldOptions
from tests.clocks import ManualClock, advance_together
from tests.polling.conftest import NAME, Scenario, loops, until

READS = (
    "listJobLibrary",
    "listFlows",
    "listPlans",
    "listPlanSnapshotRuns",
    "listSchedules",
    "listOutputObjects",
    "getCurrentPerson",
    "listUserDefinedFunctions",
)
WITHHELD = {
    "listApiAccessTokens": 0.0,
    "listConnections": 0.0,
    "getConnectionStatus": 0.0,
    "countOutputObjects": 0.0,
    "listSchedules": 0.0,
    "getFlowRunStatus": 0.0,
}


class Lives:
    """One sandbox and the lives of the monitor that follows it."""

    def __init__(
        self,
        folder: Path,
        *,
        edition: Edition,
        configured: Edition | None = None,
        requests_per_minute: float = 60_000,
    ) -> None:
        self.clock, self._world_clock = ManualClock(), ManualClock()
        self.sandbox = Sandbox(
            SandboxSettings(edition=edition, traffic=None, schedules_fire=False),
            self._world_clock,
        )
        self._folder = folder
        self._configured = configured
        self._requests_per_minute = requests_per_minute
        self.scenario: Scenario

    @property
    def options(self) -> WorldOptions:
        return self.sandbox.world.options

    async def start(self) -> None:
        self.scenario = Scenario(
            clock=self.clock,
            folder=self._folder,
            url=await self.sandbox.start(),
            settings=PollSettings(detail_wait_seconds=0.0, jitter_share=0.0),
            inventory=InventorySettings(),
            edition=self._configured,
            token=Secret(self.sandbox.token),
            requests_per_minute=self._requests_per_minute,
        )

    @contextlib.asynccontextmanager
    async def life(self, *, seconds: float = 0.0) -> AsyncIterator[None]:
        """Follow the workspace; yield when every poll has had ``seconds``."""
        await self.scenario.open()
        task = asyncio.create_task(self.scenario.poller().run())
        try:
            await self._settle()
            await self.pass_time(seconds)
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await self.scenario.close()

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds // 30)):
            await advance_together(self._world_clock, self.clock, seconds=30)
            await self._settle()

    async def _settle(self) -> None:
        """Let everything go on until every poll waits for its time, or the poller to connect.

        The recovery waits beside either.
        """
        await self.clock.advance(0)
        await until(
            lambda: (
                max(2, loops()) == sum(not sleeper.done() for _, _, sleeper in self.clock._sleepers)
            )
        )

    async def live(self, *, seconds: float = 120.0) -> list[tuple[str, str | None, str | None]]:
        """Live once and return all that was ever published of the workspace itself."""
        async with self.life(seconds=seconds):
            return await self.scenario.changes()


@contextlib.asynccontextmanager
async def lives(folder: Path, edition: Edition, **choices: object) -> AsyncIterator[Lives]:
    made = Lives(folder, edition=edition, **choices)  # type: ignore[arg-type]  # as Lives takes them
    await made.start()
    try:
        yield made
    finally:
        await made.sandbox.stop()


EVERY = pytest.mark.parametrize("edition", list(Edition))
_CHOICES = ("auto", "configured")


def editions_with(*ways: tuple[object, ...]) -> list[pytest.ParameterSet]:
    """Return every edition with a way each, in turns; with the other ways, it is for the soak."""
    return [
        pytest.param(
            edition, *way, marks=() if place == number % len(ways) else (pytest.mark.soak,)
        )
        for number, edition in enumerate(Edition)
        for place, way in enumerate(ways)
    ]


@pytest.mark.parametrize(("edition", "choice"), editions_with(*((choice,) for choice in _CHOICES)))
async def test_an_operation_that_a_token_may_not_read_is_no_change_of_each_restart(
    tmp_path: Path, edition: Edition, choice: str
) -> None:
    """An operation that only its own poll reads was refused from the start, and stays refused."""
    configured = edition if choice == "configured" else None
    async with lives(tmp_path, edition, configured=configured) as it:
        it.options.lose.update(WITHHELD)
        for _ in range(2):
            assert await it.live(seconds=330) == []


@pytest.mark.parametrize(
    ("edition", "choice", "fault"),
    editions_with(*itertools.product(_CHOICES, ("status_500", "dropped"))),
)
async def test_half_answers_change_nothing(
    tmp_path: Path, edition: Edition, choice: str, fault: str
) -> None:
    """Restarts while some reads fail show no lower set of abilities, and no higher one after."""
    configured = edition if choice == "configured" else None
    async with lives(tmp_path, edition, configured=configured) as it:
        it.options.lose.update(WITHHELD)
        setattr(it.options, fault, 0.4)
        for _ in range(4):
            await it.live(seconds=330)
        setattr(it.options, fault, 0.0)
        assert await it.live(seconds=600) == []
        status = it.scenario.live_state.workspaces[NAME]
        assert status.edition == str(edition)
        assert Capability.READ_SCHEDULES not in status.capabilities


@pytest.mark.parametrize(("edition", "reads"), editions_with((READS[::2],), (READS[1::2],)))
async def test_one_read_fails_in_each_probe(
    tmp_path: Path, edition: Edition, reads: tuple[str, ...]
) -> None:
    """Whichever read has no answer at a restart: the edition and what rests on it stay."""
    async with lives(tmp_path, edition) as it:
        it.options.lose["listSchedules"] = 0.0
        await it.live(seconds=600)
        it.options.status_503 = 1.0
        for read in reads:
            it.options.only = frozenset({read})
            assert await it.live() == []


async def test_a_small_budget_changes_nothing(tmp_path: Path) -> None:
    """A probe that waits for its requests finds what a quick one finds."""
    async with lives(tmp_path, Edition.RL, requests_per_minute=20) as it:
        it.options.lose.update(WITHHELD)
        for _ in range(3):
            assert await it.live(seconds=900) == []


@EVERY
async def test_rights_that_changed_while_the_monitor_was_away_are_published_once(
    tmp_path: Path, edition: Edition
) -> None:
    """A right that was withdrawn and one that was given, though only their own polls read them."""
    async with lives(tmp_path, edition) as it:
        it.options.lose["getJobsForJobGroup"] = 0.0
        await it.live(seconds=600)
        del it.options.lose["getJobsForJobGroup"]
        it.options.lose["listFlows"] = 0.0
        await it.live(seconds=600)
        changes = await it.live(seconds=600)

        offered = capabilities_of(edition)
        expected = []
        if Capability.LIST_FLOWS in offered:
            expected.append(("capability:list_flows", "available", "refused"))
        if Capability.READ_JOBS in offered:
            expected.append(("capability:read_jobs", "unavailable", "available"))
        assert changes == expected


async def test_a_refusal_outlasts_reads_that_have_no_answer(tmp_path: Path) -> None:
    """An operation that was refused and answers 503 now, over a restart, is still refused."""
    async with lives(tmp_path, Edition.RL) as it:
        await it.live(seconds=600)
        it.options.lose.update({"listSchedules": 0.0, "listApiAccessTokens": 0.0})
        changes = await it.live(seconds=600)
        it.options.only, it.options.status_503 = frozenset(it.options.lose), 1.0
        for _ in range(2):
            assert await it.live(seconds=1_200) == changes
        status = it.scenario.live_state.workspaces[NAME]
        assert {known.capability for known in status.refused} == {
            "read_schedules",
            "read_tokens",
        }
