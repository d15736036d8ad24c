"""Lists that a workspace offered before and refuses now: nothing is confirmed by what remains."""

from __future__ import annotations

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.catalogue.operations import Edition
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import RunKind
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.poll_loop.runner import PollAttempts
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import TinyWorkspace

FORBIDDEN = (403, "Forbidden")
NO_ROUTE = (404, "RouteNotFoundException")
GONE = (410, "Gone")
ANSWERS = pytest.mark.parametrize("answer", [FORBIDDEN, NO_ROUTE, GONE], ids=["403", "404", "410"])


class Discovered:
    """A scenario whose capabilities are discovered, as by a running poller."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.attempts = PollAttempts(scenario.context, scenario.registry)
        self.discovery = CapabilityDiscovery(scenario.context, self.attempts.reachability)

    async def run(self, *names: str) -> None:
        """Attempt polls as the runner does: only those whose capability is there."""
        for name in names:
            poll: Poll = self.scenario.declared[name]
            if poll.needs is None or self.scenario.context.can(poll.needs):
                await self.attempts.attempt(name, poll.run, again_seconds=60)
            await self.discovery.switch_off_refused()

    @property
    def status(self) -> WorkspaceStatus:
        return self.scenario.live_state.workspaces[NAME]


@pytest.fixture
async def discovered(scenario: Scenario, workspace: TinyWorkspace) -> Discovered:
    made = Discovered(scenario)
    await made.discovery.discover()
    workspace.put_job_group(1, "InProgress")
    await made.run("changes", "plan_runs")
    return made


@ANSWERS
async def test_reading_known_runs_does_not_confirm_a_kind_whose_list_is_refused(
    discovered: Discovered,
    workspace: TinyWorkspace,
    clock: ManualClock,
    answer: tuple[int, str],
) -> None:
    """Without the list of job groups new ones are unseen, however well known ones are read."""
    live_state = discovered.scenario.live_state
    confirmed_at = live_state.confirmed[NAME, RunKind.JOB_GROUP]
    workspace.faults["jobLibrary"] = answer
    await clock.advance(60)
    await discovered.run("changes", "by_id")

    run = live_state.active[discovered.scenario.key(1)]
    assert run.confirmed_at == clock.now()
    assert live_state.confirmed[NAME, RunKind.JOB_GROUP] == confirmed_at
    assert discovered.status.reachability is Reachability.DEGRADED
    assert discovered.status.why_unwatched(RunKind.JOB_GROUP) is not None
    assert discovered.status.why_unwatched(RunKind.PLAN_RUN) is None


async def test_no_run_is_lost_while_its_list_is_refused(
    discovered: Discovered, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that answers 410 to its list may answer so to every id: then nothing has ended."""
    workspace.faults["jobLibrary"] = workspace.faults["jobGroups/.*"] = GONE
    for _ in range(4):
        await clock.advance(300)
        await discovered.run("changes", "by_id", "reconciliation")
    assert discovered.scenario.key(1) in discovered.scenario.live_state.active

    workspace.faults.clear()
    del workspace.tables["jobLibrary"][1]
    await discovered.discovery.discover()
    for _ in range(2):
        await clock.advance(300)
        await discovered.run("changes", "by_id", "reconciliation")
    assert (await discovered.scenario.run_events())[-1] == "1:lost"


@ANSWERS
async def test_a_refused_list_is_known_over_a_restart(
    discovered: Discovered, workspace: TinyWorkspace, clock: ManualClock, answer: tuple[int, str]
) -> None:
    """A restart while rights are withdrawn finds an outage, and not a smaller edition."""
    workspace.faults["jobLibrary"] = workspace.faults["planSnapshotRuns"] = answer
    await discovered.run("changes", "plan_runs")
    before = discovered.status
    await clock.advance(60)
    await discovered.scenario.restart()
    again = Discovered(discovered.scenario)
    await again.discovery.discover()

    assert again.status.refused == before.refused
    assert {known.capability for known in before.refused} == {"list_changes", "list_plan_runs"}
    assert again.status.edition == before.edition
    workspace.faults.clear()
    await again.discovery.discover()
    assert again.status.refused == ()
    assert again.scenario.context.can(Capability.LIST_CHANGES)


async def test_an_operation_that_was_never_answered_is_not_offered(
    unbegun: Scenario, workspace: TinyWorkspace
) -> None:
    """A token that never could list plan runs is no outage, however often it is refused."""
    workspace.faults["planSnapshotRuns"] = FORBIDDEN
    await unbegun.begin(Edition.RL)
    discovered = Discovered(unbegun)
    for _ in range(3):
        await discovered.discovery.discover()
        await discovered.run("changes", "plan_runs")

    assert discovered.status.refused == ()
    assert discovered.status.reachability is Reachability.REACHABLE
    assert not discovered.scenario.context.can(Capability.LIST_PLAN_RUNS)


async def test_an_edition_that_is_configured_smaller_expects_nothing_more(
    discovered: Discovered, workspace: TinyWorkspace
) -> None:
    """Operations outside the configured edition are not missed: that ends the alert."""
    workspace.faults["jobLibrary"] = FORBIDDEN
    await discovered.run("changes")
    assert discovered.status.refused
    discovered.scenario.edition = Edition.LE
    await discovered.scenario.restart(Edition.LE)
    again = Discovered(discovered.scenario)
    await again.discovery.discover()

    assert again.status.refused == ()
    assert again.status.reachability is not Reachability.DEGRADED
