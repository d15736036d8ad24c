"""The probe: reads prove the edition, the specification only breaks ties."""

from __future__ import annotations

import asyncio

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.catalogue.operations import Edition, operations
from monitor.model.errors import NotAvailableError, UnauthorizedError, WorkspaceUnreachableError
from monitor.model.events import WorkspaceEvent
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.discovery.probe import Proof, infer_edition, probe
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.tiny_workspace import FORBIDDEN, NO_ROUTE, OVERLOADED, TinyWorkspace

READS = frozenset(
    {
        "listJobLibrary",
        "listFlows",
        "listPlans",
        "listPlanSnapshotRuns",
        "listSchedules",
        "listOutputObjects",
        "getCurrentPerson",
        "listUserDefinedFunctions",
    }
)


def reads_of(edition: Edition) -> frozenset[str]:
    return frozenset(
        operation.operation_id
        for operation in operations()
        if operation.operation_id in READS and operation.is_part_of(edition)
    )


def document(edition: Edition) -> frozenset[tuple[str, str]]:
    return frozenset(
        (operation.method, operation.path)
        for operation in operations()
        if operation.is_part_of(edition)
    )


@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.LE])
@pytest.mark.parametrize("served", [*Edition, None])
def test_reads_find_the_edition_whatever_the_document_shows(
    edition: Edition, served: Edition | None
) -> None:
    """A specification of another edition, or none, changes nothing where reads decide."""
    proof = Proof(found=reads_of(edition), refused=READS - reads_of(edition))
    specification = document(served) if served is not None else frozenset()

    assert infer_edition(proof, specification)[0] is edition


@pytest.mark.parametrize("lost", sorted(READS))
@pytest.mark.parametrize("served", [*Edition, None])
@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.LE])
def test_the_loss_of_one_read_is_no_other_edition(
    edition: Edition, served: Edition | None, lost: str
) -> None:
    """The edition stands where the reads that are left fit it as well as any."""
    found = reads_of(edition) - {lost}
    specification = document(served) if served is not None else frozenset()

    proof = Proof(found=found, refused=READS - found)
    assert infer_edition(proof, specification, before=edition)[0] is edition


def test_reads_that_no_edition_has_together_are_open() -> None:
    """Reads that no edition serves together give the edition ``open`` and a reason."""
    found = frozenset({"getCurrentPerson", "listUserDefinedFunctions"})
    edition, reason = infer_edition(Proof(found=found, refused=READS - found), document(Edition.RL))

    assert edition is Edition.OPEN
    assert "getCurrentPerson, listUserDefinedFunctions" in reason


@pytest.mark.parametrize("edition", [Edition.PL, Edition.RL])
def test_the_document_breaks_a_tie(edition: Edition) -> None:
    """Where a token may read neither's own operations, the served document decides."""
    found = reads_of(Edition.PL) & reads_of(Edition.RL)
    proof = Proof(found=found, refused=READS - found)

    assert infer_edition(proof, document(edition))[0] is edition


def test_with_no_read_at_all_the_document_decides() -> None:
    """A token without rights leaves the document as the only hint, and the reason names it."""
    proof = Proof(found=frozenset(), refused=READS)
    edition, reason = infer_edition(proof, document(Edition.LE))

    assert edition is Edition.LE
    assert "no read succeeded" in reason


async def test_a_workspace_shows_its_edition(unbegun: Scenario, workspace: TinyWorkspace) -> None:
    """The reads go over the wire, and what is refused is not among the capabilities."""
    unbegun.client.settings = unbegun.client.requester.settings = type(unbegun.client.settings)(
        name=NAME, url=workspace.url, retries=0, requests_per_minute=60_000
    )
    for path in ("people/current", "plans", "schedules", "planSnapshotRuns", "open-api-spec"):
        workspace.faults[path] = NO_ROUTE
    finding = await probe(unbegun.client)

    assert finding.edition is Edition.PL
    assert unbegun.client.requester.edition is Edition.PL
    assert Capability.LIST_CHANGES in finding.capabilities
    assert Capability.LIST_PLAN_RUNS not in finding.capabilities


async def test_a_configured_edition_is_not_doubted(
    unbegun: Scenario, workspace: TinyWorkspace
) -> None:
    """Only what reads find refused is switched off."""
    workspace.faults["schedules"] = FORBIDDEN
    finding = await probe(unbegun.client)

    assert (finding.edition, finding.reason) == (Edition.RL, "as configured")
    assert Capability.READ_SCHEDULES not in finding.capabilities


@pytest.mark.parametrize(
    ("fault", "error"),
    [(OVERLOADED, WorkspaceUnreachableError), ((401, "Unauthorized"), UnauthorizedError)],
)
async def test_an_outage_proves_nothing(
    unbegun: Scenario,
    workspace: TinyWorkspace,
    fault: tuple[int, str],
    error: type[Exception],
) -> None:
    """A workspace that is unreachable keeps its edition."""
    workspace.faults[".*"] = fault
    with pytest.raises(error):
        await probe(unbegun.client)


async def test_a_loss_is_published_once_and_a_return_too(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Each loss switches off with one event, however often it is found again."""
    capability_discovery = CapabilityDiscovery(
        scenario.context, ReachabilityJudge(scenario.context)
    )
    await capability_discovery.discover()
    workspace.faults["plans/.*"] = NO_ROUTE
    for fault in (NO_ROUTE, NO_ROUTE, None):
        workspace.faults.clear()
        if fault is not None:
            workspace.faults["schedules"] = fault
        await capability_discovery.discover()
        await capability_discovery.switch_off_refused()
    recorded = [event.event for event in await scenario.bus.events(after=0, limit=100)]
    published = [
        (event.what, event.after) for event in recorded if isinstance(event, WorkspaceEvent)
    ]

    assert published == [
        ("capability:read_schedules", "refused"),
        ("capability:read_schedules", "available"),
    ]


async def test_a_refused_read_switches_off_what_rests_on_it(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """An operation that turns out to be absent later is heeded without a new probe."""
    capability_discovery = CapabilityDiscovery(
        scenario.context, ReachabilityJudge(scenario.context)
    )
    await capability_discovery.discover()
    workspace.faults["flowRuns/.*"] = NO_ROUTE
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    await scenario.polls.changes.poll()
    with pytest.raises(Exception, match="getFlowRun"):
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
    await capability_discovery.switch_off_refused()

    assert not scenario.context.can(Capability.FOLLOW_FLOW_RUNS)
    assert scenario.context.can(Capability.LIST_CHANGES)


async def test_a_loss_noticed_during_a_probe_costs_no_other(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A probe may take long in a small budget; what polls notice meanwhile is in its result."""
    capability_discovery = CapabilityDiscovery(
        scenario.context, ReachabilityJudge(scenario.context)
    )
    await capability_discovery.discover()
    await clock.advance(3_600)
    workspace.faults["schedules"] = NO_ROUTE
    with pytest.raises(NotAvailableError):
        await scenario.poll("schedules")
    capability_discovery.notice_refused()
    assert capability_discovery.seconds_until_due() == 0
    workspace.holds["flows"] = asyncio.Event()
    probing = asyncio.create_task(capability_discovery.poll())
    await until(lambda: workspace.count("flows") == 2)
    capability_discovery.notice_refused()
    workspace.holds["flows"].set()

    assert await probing
    assert not scenario.context.can(Capability.READ_SCHEDULES)
    assert not await capability_discovery.poll()
    assert capability_discovery.seconds_until_due() > 0
    assert workspace.count("flows") == 2


async def test_one_failing_read_leaves_the_rest_proven(
    unbegun: Scenario, workspace: TinyWorkspace
) -> None:
    """A list that fails for now is neither found nor refused, and the finding is not sure."""
    workspace.faults["planSnapshotRuns"] = OVERLOADED
    finding = await probe(unbegun.client)

    assert not finding.is_sure
    assert Capability.LIST_PLAN_RUNS in finding.capabilities
