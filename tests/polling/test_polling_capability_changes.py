"""A workspace that loses operations while it is followed, beside a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.model.errors import NotAvailableError
from monitor.model.inventory import Figures
from monitor.model.live_state import Reachability
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_loop.runner import PollAttempts
from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario

LINE = "workspace capabilities changed"


class Followed:
    """A sandbox that is followed by hand: one poll, one probe at a time."""

    def __init__(self, scenario: Scenario, sandbox: Sandbox) -> None:
        self.scenario = scenario
        self.sandbox = sandbox
        self.attempts = PollAttempts(scenario.context, CollectorRegistry())
        self.capability_discovery = CapabilityDiscovery(
            scenario.context, self.attempts.reachability
        )

    async def poll(self) -> None:
        """Read the schedules as a running poller does, and switch off what was refused."""
        if self.scenario.context.can(Capability.READ_SCHEDULES):
            poll = self.scenario.declared["schedules"].run
            await self.attempts.attempt("schedules", poll, again_seconds=60)
        await self.capability_discovery.switch_off_refused()

    async def published(self, since: int) -> list[tuple[str, str | None]]:
        return [(what, after) for what, _, after in (await self.scenario.changes())[since:]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[None, Edition.RL], ids=["auto", "configured"])
def configured(request: pytest.FixtureRequest) -> Edition | None:
    found: Edition | None = request.param
    return found


@pytest.fixture
async def followed(
    clock: ManualClock, tmp_path: Path, configured: Edition | None
) -> AsyncIterator[Followed]:
    sandbox = Sandbox(SandboxSettings(edition=Edition.RL, is_busy_at_once=False), SystemClock())
    scenario = Scenario(
        clock=clock,
        folder=tmp_path,
        url=await sandbox.start(),
        settings=PollSettings(),
        edition=configured,
        token=Secret(sandbox.token),
    )
    await scenario.open()
    made = Followed(scenario, sandbox)
    await made.capability_discovery.discover()
    await scenario.observer.open(NAME)
    await clock.advance(3_600)
    yield made
    await scenario.close()
    await sandbox.stop()


def loud(lines: Sequence[MutableMapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what an operator sees: everything above debug."""
    return [line for line in lines if line["log_level"] != "debug"]


async def test_a_lost_operation_is_published_by_one_line_and_one_event(
    followed: Followed, clock: ManualClock
) -> None:
    """An operation that is refused now leaves the workspace degraded until it returns."""
    await followed.poll()
    before = len(await followed.scenario.changes())
    followed.sandbox.world.options.lose["listSchedules"] = 0.0
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await followed.poll()
            await clock.advance(60)
    status = followed.scenario.live_state.workspaces[NAME]

    assert [(line["event"], line["lost"]) for line in loud(lines)] == [(LINE, ["read_schedules"])]
    assert await followed.published(before) == [("capability:read_schedules", "refused")]
    assert Capability.READ_SCHEDULES not in status.capabilities
    assert [known.capability for known in status.refused] == ["read_schedules"]
    assert status.reachability is Reachability.DEGRADED
    assert status.reason == status.refused[0].reason
    assert status.refused[0].reason.startswith("read schedules: offered before, refused since")
    assert "(listSchedules answered 404" in status.refused[0].reason
    # Nothing waits for a success of what is no longer read.
    assert followed.scenario.live_state.polls[NAME, "schedules"].overdue_at is None

    del followed.sandbox.world.options.lose["listSchedules"]
    await clock.advance(followed.capability_discovery.seconds_until_due())
    with structlog.testing.capture_logs() as lines:
        await followed.capability_discovery.discover()
        await followed.poll()
    assert [(line["event"], line["regained"]) for line in loud(lines)] == [
        (LINE, ["read_schedules"])
    ]
    assert (await followed.published(before))[1:] == [("capability:read_schedules", "available")]
    status = followed.scenario.live_state.workspaces[NAME]
    assert (status.refused, status.reachability) == ((), Reachability.REACHABLE)


async def test_a_second_loss_does_not_put_off_the_probe(
    followed: Followed, clock: ManualClock
) -> None:
    """A loss just after a probe is probed within a minute, however much follows."""
    await followed.capability_discovery.discover()
    followed.sandbox.world.options.lose.update({"listSchedules": 0.0, "listPlans": 0.0})
    await followed.poll()
    first = followed.capability_discovery.seconds_until_due()
    await clock.advance(20)
    with pytest.raises(NotAvailableError):
        await followed.scenario.client.requester.request("listPlans", priority=Priority.CHANGES)
    await followed.capability_discovery.switch_off_refused()

    assert first <= 60
    assert followed.capability_discovery.seconds_until_due() == first - 20


async def test_figures_that_are_read_no_more_are_forgotten_at_once(followed: Followed) -> None:
    """Figures of a lost ability are not shown until they grow old; schedules are not over by it."""
    context = followed.scenario.context
    figures = Figures(values={"flow": 8.0}, until=context.clock.now())
    context.update_inventory(objects=figures, usage=figures)
    await followed.poll()
    schedules = followed.scenario.live_state.workspaces[NAME].schedules
    lose = followed.sandbox.world.options.lose
    lose.update({"countOutputObjects": 0.0, "listSchedules": 0.0})
    await followed.poll()
    status = followed.scenario.live_state.workspaces[NAME]

    assert schedules
    assert status.schedules == schedules
    assert status.inventory.objects is None
    assert status.inventory.usage is None  # this edition has none

    lose.clear()
    await followed.capability_discovery.discover()
    context.update_inventory(objects=figures)
    lose["listSchedules"] = 0.0
    await followed.poll()
    assert followed.scenario.live_state.workspaces[NAME].inventory.objects == figures


async def test_a_loss_is_probed_at_least_four_times_an_hour(
    followed: Followed, clock: ManualClock
) -> None:
    """However long it lasts; where nothing was lost, every six hours is enough."""
    idle = followed.capability_discovery.seconds_until_due()
    followed.sandbox.world.options.lose["listSchedules"] = 0.0
    await followed.poll()
    waits = []
    for _ in range(6):
        waits.append(followed.capability_discovery.seconds_until_due())
        await clock.advance(waits[-1])
        await followed.capability_discovery.discover()

    assert idle == 21_600 - 3_600
    assert max(waits) <= 900
    assert len(await followed.published(0)) == 1


async def test_a_renewal_is_logged_in_one_line(followed: Followed) -> None:
    """All that went is named together, with an event for each: rights withdrawn, no edition."""
    before = len(await followed.scenario.changes())
    followed.sandbox.world.options.renewal = 0.0
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            await followed.poll()
    published = dict(await followed.published(before))

    (line,) = loud(lines)
    gone = {item for item, after in published.items() if after in ("unavailable", "refused")}
    assert {f"capability:{item}" for item in line["lost"]} == gone
    assert {"capability:list_changes", "capability:list_plan_runs"} <= gone
    assert published["capability:list_changes"] == "refused"
    assert published.keys() == gone  # and not the edition
    workspace = followed.scenario.live_state.workspaces[NAME]
    assert {why for kind in RunKind if (why := workspace.why_unwatched(kind)) is None} == set()
    assert not {"capability:follow_by_id", "capability:read_profiles"} - gone

    followed.sandbox.world.options.renewal = None
    await followed.capability_discovery.discover()
    workspace = followed.scenario.live_state.workspaces[NAME]
    assert (workspace.edition, workspace.capabilities) == (
        "RL",
        capabilities_of(Edition.RL),
    )


@pytest.mark.parametrize(
    ("operation_id", "capability"),
    [
        ("getFlowRunStatus", Capability.FOLLOW_FLOW_RUNS),
        ("createWebhookFlowTask", Capability.CREATE_WEBHOOK_TASKS),
        ("deleteWebhookFlowTask", Capability.CREATE_WEBHOOK_TASKS),
        ("testWebhook", Capability.TEST_WEBHOOKS),
        ("getConnectionStatus", Capability.READ_CONNECTIONS),
    ],
)
async def test_operations_that_are_no_harmless_reads_are_probed_harmlessly(
    followed: Followed, clock: ManualClock, operation_id: str, capability: Capability
) -> None:
    """A probe never reports it as back while it is gone, and creates or deletes nothing."""
    tasks = len(list(followed.sandbox.world.shelf(WebhookFlowTask).live()))
    followed.sandbox.world.options.lose[operation_id] = 0.0
    client = followed.scenario.client
    body: object = {} if operation_id in ("createWebhookFlowTask", "testWebhook") else None
    values = () if body is not None else ("1",)
    with pytest.raises(NotAvailableError):
        await client.requester.request(operation_id, *values, body=body, priority=Priority.CHANGES)
    for _ in range(3):
        await followed.capability_discovery.switch_off_refused()
        await clock.advance(followed.capability_discovery.seconds_until_due())
        await followed.capability_discovery.discover()
    assert await followed.published(0) == [(f"capability:{capability}", "unavailable")]

    followed.sandbox.world.options.lose.clear()
    await followed.capability_discovery.discover()
    assert (await followed.published(0))[1:] == [(f"capability:{capability}", "available")]
    assert len(list(followed.sandbox.world.shelf(WebhookFlowTask).live())) == tasks


async def test_an_outage_in_the_middle_of_a_loss_still_switches_off(
    followed: Followed, clock: ManualClock
) -> None:
    """When a further probe fails, what is known already is published."""
    followed.sandbox.world.options.lose["listSchedules"] = 0.0
    poll = followed.scenario.declared["schedules"].run
    await followed.attempts.attempt("schedules", poll, again_seconds=60)
    followed.sandbox.world.options.status_503 = 1.0
    await followed.capability_discovery.switch_off_refused()
    assert not followed.scenario.context.can(Capability.READ_SCHEDULES)

    followed.sandbox.world.options.status_503 = 0.0
    followed.sandbox.world.options.lose.clear()
    await clock.advance(followed.capability_discovery.seconds_until_due())
    await followed.capability_discovery.discover()
    assert followed.scenario.context.can(Capability.READ_SCHEDULES)
