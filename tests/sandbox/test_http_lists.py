"""What lists select, in which order, how much of it, and what of each row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.request.listing import date_limit
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus, RanFor, RanFrom
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

LIBRARY = "/v4/jobLibrary"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def hourly_job_groups(workspace: Workspace, count: int) -> list[JobGroup]:
    """Start one job group an hour."""
    started = []
    for _ in range(count):
        started.append(workspace.job_group(status=NativeStatus.COMPLETE))
        await workspace.clock.advance(3600)
    return started


def milliseconds(instant: datetime) -> str:
    return str(int(instant.timestamp() * 1000))


async def test_a_page_is_25_rows_by_default(workspace: Workspace) -> None:
    """The default page is 25 rows, newest first; limit and offset walk over the rest."""
    started = await hourly_job_groups(workspace, 30)
    newest_first = [group.id for group in reversed(started)]

    assert (await workspace.get(LIBRARY)).ids == newest_first[:25]
    assert (await workspace.get(LIBRARY, limit="10", offset="25")).ids == newest_first[25:]
    assert (await workspace.get(LIBRARY, limit="250")).ids == newest_first
    assert (await workspace.get(LIBRARY, offset="1000")).body == {"data": []}


async def test_a_count_is_shown_only_on_request(workspace: Workspace) -> None:
    """The envelope has a count with includeCount=true; it counts all pages."""
    await hourly_job_groups(workspace, 3)

    without = await workspace.get(LIBRARY, limit="1")
    with_count = await workspace.get(LIBRARY, limit="1", includeCount="true")
    alone = await workspace.get(f"{LIBRARY}/count", limit="1")

    assert "count" not in without.body
    assert with_count.body["count"] == 3
    assert alone.body == {"count": 3}


async def test_rows_are_sorted(workspace: Workspace) -> None:
    """A name sorts up, a minus before it down."""
    started = await hourly_job_groups(workspace, 3)
    ids = [group.id for group in started]

    assert (await workspace.get(LIBRARY, sort="id")).ids == ids
    assert (await workspace.get(LIBRARY, sort="-createdAt")).ids == ids[::-1]


async def test_dates_limit_a_list(workspace: Workspace) -> None:
    """Each comparison of dateFilter keeps to its side, by the second that the row shows."""
    first, second, third = await hourly_job_groups(workspace, 3)
    workspace.world.update(second, description="edited")
    middle = milliseconds(second.created_at)
    expected = {
        "gte": [third.id, second.id],
        "gt": [third.id],
        "lte": [second.id, first.id],
        "lt": [first.id],
    }

    for comparison, ids in expected.items():
        found = await workspace.get(LIBRARY, **{f"dateFilter[createdAt][{comparison}]": middle})
        assert found.ids == ids
    edited = {"dateFilter[updatedAt][gte]": milliseconds(second.updated_at)}
    assert (await workspace.get(LIBRARY, **edited)).ids == [second.id]
    both = {
        "dateFilter[createdAt][gt]": milliseconds(first.created_at),
        "dateFilter[createdAt][lt]": milliseconds(third.created_at),
    }
    assert (await workspace.get(f"{LIBRARY}/count", **both)).body == {"count": 1}


async def test_parts_of_a_second_do_not_hide_a_row(workspace: Workspace) -> None:
    """A row that was changed within a second is found from that second on, as it is shown."""
    job_group = workspace.job_group()
    job_group.updated_at += timedelta(milliseconds=700)
    shown = {
        "dateFilter[updatedAt][lte]": milliseconds(job_group.updated_at.replace(microsecond=0))
    }

    assert (await workspace.get(LIBRARY, **shown)).ids == [job_group.id]


@given(
    value=st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants naive bounds
    away=st.integers(-3_000, 3_000) | st.integers(-(10**18) + 1, 10**18 - 1),
)
def test_limits_compare_whole_seconds(value: datetime, away: int) -> None:
    """However far away the bound, a comparison is that of the shown second with it."""
    shown = int(value.timestamp()) * 1000
    bound = max(-(10**18), min(10**18, shown + away))

    assert date_limit("createdAt", "gte", bound).admits(value) is (shown >= bound)
    assert date_limit("createdAt", "gt", bound).admits(value) is (shown > bound)
    assert date_limit("createdAt", "lte", bound).admits(value) is (shown <= bound)
    assert date_limit("createdAt", "lt", bound).admits(value) is (shown < bound)


async def test_words_limit_a_list(workspace: Workspace) -> None:
    """Status, ranfrom and ranfor select by their words."""
    job_group = workspace.job_group(status=NativeStatus.FAILED)
    other = workspace.job_group(status=NativeStatus.IN_PROGRESS)
    workspace.world.update(other, ran_from=RanFrom.SCHEDULE, ran_for=RanFor.SAMPLING)

    assert (await workspace.get(LIBRARY, status="Failed")).ids == [job_group.id]
    assert (await workspace.get(LIBRARY, ranfrom="schedule")).ids == [other.id]
    assert (await workspace.get(LIBRARY, ranfor="recipe,plan")).ids == [job_group.id]
    assert (await workspace.get(LIBRARY, status="Canceled")).ids == []


async def test_the_library_shows_who_started_a_run(workspace: Workspace) -> None:
    """Rows of the library carry their creator's record; those of the older list the id only."""
    owner = workspace.job_group().creator_id

    library = await workspace.get(LIBRARY, fields="creator")
    older = await workspace.get("/v4/jobGroups", fields="creator")

    assert library.body["data"][0]["creator"]["email"] == "owner@example.com"
    assert older.body["data"] == [{"creator": {"id": owner}}]


async def test_lists_show_ones_own_unless_widened(workspace: Workspace) -> None:
    """Runs and flows of others appear only on request, and only where they are shared."""
    own = workspace.job_group()
    others = workspace.job_group(workspace.things.count, by=workspace.things.colleague)

    assert (await workspace.get(LIBRARY)).ids == [own.id]
    assert (await workspace.get(LIBRARY, runBy="all")).ids == [own.id]
    workspace.token = ADMIN_TOKEN
    assert (await workspace.get(LIBRARY)).ids == []
    assert (await workspace.get(LIBRARY, runBy="all")).ids == [others.id, own.id]
    flow_ids = [workspace.things.stock.id, workspace.things.orders.id]
    assert (await workspace.get("/v4/flows")).ids == []
    assert (await workspace.get("/v4/flows", flowsFilter="all")).ids == flow_ids
    assert (await workspace.get("/v4/flows/count", flowsFilter="shared")).body == {"count": 2}


async def test_a_shared_flow_shows_its_runs(workspace: Workspace) -> None:
    """A flow that is shared with the caller shows up as shared, with its job groups."""
    others = workspace.job_group(workspace.things.count, by=workspace.things.colleague)
    workspace.things.stock.shared_with = frozenset({workspace.things.owner.id})

    shared = await workspace.get("/v4/flows", flowsFilter="shared")

    assert shared.ids == [workspace.things.stock.id]
    assert (await workspace.get(LIBRARY, runBy="all")).ids == [others.id]


async def test_the_older_name_of_the_plan_filter_works(workspace: Workspace) -> None:
    """Plans are widened by ownershipFilter, and by plansFilter as Google's product has it."""
    plans = [workspace.things.weekly.id, workspace.things.nightly.id]
    workspace.token = ADMIN_TOKEN

    assert (await workspace.get("/v4/plans")).ids == []
    assert (await workspace.get("/v4/plans", ownershipFilter="all")).ids == plans
    assert (await workspace.get("/v4/plans", plansFilter="all")).ids == plans
    assert (await workspace.get("/v4/plans/count", ownershipFilter="all")).body == {"count": 2}


@pytest.mark.parametrize(
    ("text", "filter_type", "found"),
    [
        ("ordrs", "fuzzy", True),
        ("sredro", "fuzzy", False),
        ("RDER", "contains", True),
        ("ordrs", "contains", False),
        ("Orders", "exact", True),
        ("orders", "exact", False),
        ("orders", "exactIgnoreCase", True),
        ("order", "exactIgnoreCase", False),
    ],
)
async def test_names_are_filtered(
    workspace: Workspace, text: str, filter_type: str, *, found: bool
) -> None:
    """Each filterType compares in its way."""
    answer = await workspace.get("/v4/flows", filter=text, filterType=filter_type)

    assert bool(answer.ids) is found


async def test_the_library_filter_matches_names_of_related_objects(workspace: Workspace) -> None:
    """The library is filtered by id, recipe, flow and creator, though rows have no name."""
    job_group = workspace.job_group()

    for text in (str(job_group.id), "Clean orders", "Orders", "Owner"):
        assert (await workspace.get(LIBRARY, filter=text, filterType="exact")).ids == [job_group.id]
    assert (await workspace.get(LIBRARY, filter="Stock", filterType="exact")).ids == []


async def test_fields_are_chosen(workspace: Workspace) -> None:
    """Only the fields named stand in a row, whatever the case of flowRun."""
    job_group = workspace.job_group()

    rows = await workspace.get(LIBRARY, fields="id;STATUS;FLOWRUN")
    one = await workspace.get(f"/v4/jobGroups/{job_group.id}", fields="status", embed="creator")

    assert rows.body["data"] == [{"id": job_group.id, "status": "Created", "flowRun": None}]
    assert one.body.keys() == {"status", "creator"}


async def test_rows_carry_the_flow_unless_bare(workspace: Workspace) -> None:
    """A row shows recipe, flow and flow run; with the option "bare" neither flow nor flow run."""
    workspace.job_group()
    flow = {"id": workspace.things.orders.id, "name": "Orders"}

    for path in (LIBRARY, "/v4/jobGroups"):
        row = (await workspace.get(path)).body["data"][0]
        assert row["wrangledDataset"]["flow"] == flow
        assert row["flowRun"] is None
    workspace.world.options.library_rows = "bare"
    incomplete_row = (await workspace.get(LIBRARY)).body["data"][0]
    assert incomplete_row["wrangledDataset"] == {"id": workspace.things.clean.id}
    assert not {"flowRun", "flowrun"} & incomplete_row.keys()


async def test_job_groups_of_one_recipe(workspace: Workspace) -> None:
    """The older list of job groups can be limited to one flow node."""
    workspace.job_group(workspace.things.clean)
    newest = workspace.job_group(workspace.things.totals)

    found = await workspace.get("/v4/jobGroups", flowNodeId=str(workspace.things.totals.id))

    assert found.ids == [newest.id]


async def test_deleted_rows_appear_on_request(workspace: Workspace) -> None:
    """Deleted flows and runs are listed only with includeDeleted=true."""
    deleted = workspace.job_group()
    workspace.engine.delete_run(deleted)
    flow = workspace.world.create(Flow, by=workspace.things.owner.id, name="Gone")
    workspace.world.delete(flow)

    assert (await workspace.get(LIBRARY)).ids == []
    assert (await workspace.get(LIBRARY, includeDeleted="true")).ids == [deleted.id]
    assert flow.id not in (await workspace.get("/v4/flows")).ids
    assert flow.id in (await workspace.get("/v4/flows", includeDeleted="true")).ids


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (LIBRARY, "limit", "0"),
        (LIBRARY, "limit", "many"),
        (LIBRARY, "limit", "9" * 5000),
        (LIBRARY, "offset", "-1"),
        (LIBRARY, "sort", "-nothing"),
        (LIBRARY, "sort", "--id"),
        (LIBRARY, "limit", "\N{FULLWIDTH DIGIT ONE}"),
        (LIBRARY, "includeCount", "maybe"),
        (LIBRARY, "includeDeleted", "1"),
        (LIBRARY, "status", "Sleeping"),
        (LIBRARY, "ranfrom", "moon"),
        (LIBRARY, "ranfor", "recipe,fun"),
        (LIBRARY, "runBy", "me"),
        (LIBRARY, "filterType", "regex"),
        (LIBRARY, "fields", "id;nothing"),
        (LIBRARY, "dateFilter[createdAt][gte]", "yesterday"),
        (LIBRARY, "dateFilter[createdAt][near]", "1"),
        (LIBRARY, "dateFilter[diedAt][gte]", "1"),
        (LIBRARY, "dateFilter", "1"),
        (f"{LIBRARY}/count", "status", "Sleeping"),
        ("/v4/flows", "flowsFilter", "mine"),
        ("/v4/flows", "filterFields", "wrangledDataset.flow.id"),
        ("/v4/plans", "ownershipFilter", "mine"),
        ("/v4/plans", "plansFilter", "mine"),
        ("/v4/planSnapshotRuns", "status", "Sleeping"),
        ("/v4/schedules", "limit", "1001"),
        ("/v4/schedules", "taskTypeFilter[]", "sing"),
        ("/v4/schedules", "assetId", "x"),
        ("/v4/jobGroups", "flowNodeId", "x"),
    ],
)
async def test_a_bad_parameter_is_named(
    workspace: Workspace, path: str, name: str, value: str
) -> None:
    """A value that means nothing is 400 ValidationFailed with the parameter's name."""
    workspace.job_group()

    answer = await workspace.get(path, **{name: value})

    assert answer.is_refused(400, "ValidationFailed", f'"{name.removesuffix("[]")}"')


async def test_parameters_of_other_operations_are_ignored(workspace: Workspace) -> None:
    """A query parameter that an operation does not list is ignored."""
    job_group = workspace.job_group()

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}", limit="x", colour="blue")

    assert answer.status == 200


@pytest.mark.parametrize("token", ["", "unknown", COLLEAGUE_TOKEN])
async def test_each_sees_by_the_own_token(workspace: Workspace, token: str) -> None:
    """Without a token that the workspace knows there is 401; a colleague sees the own flows."""
    answer = await workspace.request("GET", "/v4/flows", token=token)

    if token == COLLEAGUE_TOKEN:
        assert answer.ids == [workspace.things.stock.id]
    else:
        assert answer.is_refused(401, "UnauthorizedException")
