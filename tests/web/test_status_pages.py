"""Status pages: what those who wait for data read, and who may."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.model.alerts import PipelineDeadlines
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from monitor.web.status_pages.settings import StatusPageSettings
from tests.web.people import PEOPLE, bearer, entry, token_of
from tests.web.site import Site
from tests.web.test_overview_boxes import see

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
MIXED = StatusPageSettings(
    name="mixed", shows={"Ours": "acme/flow/7", "Theirs": "others/flow/7"}, public=True
)
FINANCE = StatusPageSettings(
    name="finance",
    title="Data of <finance>",
    shows={"Orders of yesterday": "acme/flow/7", "Prices & more": "acme/plan/9"},
    time_zone="Pacific/Auckland",
    public=True,
    embedded_in=("https://wiki.example.com",),
)
CLOSED = StatusPageSettings(name="closed", shows={"Orders": "acme/flow/7"})
ENTRIES = (
    entry("rita", Role.READ),
    msgspec.structs.replace(entry("fred", Role.READ), workspaces=("other*",)),
)


@pytest.fixture
def settings() -> ServerSettings:
    return msgspec.structs.replace(PEOPLE, access=ENTRIES, status_pages=(FINANCE, CLOSED, MIXED))


async def shown(site: Site) -> dict[str, dict[str, object]]:
    """Return what a stranger reads of each pipeline."""
    answer = await site.get_recomputed("/status/finance.json")
    assert answer.status == 200
    return {row.pop("name"): row for row in answer.document["data"]}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.SUCCEEDED, "ready"),
        (Status.FAILED, "failed"),
        (Status.LOST, "failed"),
        (Status.CANCELED, "canceled"),
    ],
)
async def test_the_last_run_decides(site: Site, status: Status, state: str) -> None:
    """A success is ready; what was not seen to run is unknown, and no pipeline of ours is named."""
    see(site)
    site.stand(ORDERS, status)
    rows = await shown(site)

    assert rows["Orders of yesterday"]["state"] == state
    assert rows["Prices & more"]["state"] == "unknown"
    assert "orders" not in (await site.get("/status/finance")).text.replace("Orders", "")


async def test_a_pipeline_is_well_since_its_last_failure(site: Site) -> None:
    """The first success after it counts, and a run that is still going on changes nothing."""
    see(site)
    began = site.clock.now() - timedelta(hours=5)
    ends = [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED, Status.SUCCEEDED]
    for hour, status in enumerate(ends):
        at = began + timedelta(hours=hour)
        await site.observe(
            site.run(str(hour), status, created_at=at, started_at=at, finished_at=at)
        )
    await site.observe(site.run("9", Status.RUNNING, started_at=site.clock.now()))
    site.stand(ORDERS, Status.SUCCEEDED)
    row = (await shown(site))["Orders of yesterday"]

    assert row["well_since"] == (began + timedelta(hours=2)).isoformat().replace("+00:00", "Z")
    assert row["is_running"] is True


async def test_today_is_that_of_the_page(site: Site) -> None:
    """A success is ready today until midnight in the page's time zone."""
    see(site)
    site.stand(ORDERS, Status.SUCCEEDED)
    is_today = (await shown(site))["Orders of yesterday"]["is_ready_today"]
    await site.clock.advance(86_400)
    see(site)

    assert is_today is True
    assert (await shown(site))["Orders of yesterday"]["is_ready_today"] is False


async def test_a_missed_deadline_makes_it_late(site: Site) -> None:
    """Also after a success, which came for an earlier deadline; the next one is shown."""
    see(site)
    site.stand(ORDERS, Status.SUCCEEDED)
    at = site.clock.now() + timedelta(hours=3)
    known = PipelineDeadlines(next_at=at, missed_at=site.clock.now(), met=1, missed=1)
    site.alerting.show(deadlines={("acme", RunKind.FLOW_RUN, "7"): known})
    row = (await shown(site))["Orders of yesterday"]

    assert (row["state"], row["is_deadline"]) == ("late", True)
    assert row["next_by"] == at.isoformat().replace("+00:00", "Z")


async def test_strangers_read_public_pages_only(site: Site) -> None:
    """They are cached and shown inside named pages; the others need a log-in."""
    answer = await site.get("/status/finance")
    closed = await site.get("/status/closed")
    read = await site.get("/status/closed", headers=bearer(token_of("rita")))

    assert (answer.status, closed.status, read.status) == (200, 401, 200)
    assert "Data of &lt;finance&gt;" in answer.text
    assert answer.headers["Cache-Control"] == "public, max-age=15"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.endswith("frame-ancestors https://wiki.example.com")
    assert read.headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
    assert "private" in read.headers["Cache-Control"]
    assert (await site.get("/api/v1/status/finance")).status == 401


async def test_no_cache_keeps_the_part_that_some_users_see(site: Site) -> None:
    """Of a public page a user of some workspaces gets these rows, and no cache may give them on."""
    public = await site.get("/status/mixed.json")
    part = await site.get("/status/mixed.json", headers=bearer(token_of("fred")))

    assert [row["name"] for row in public.document["data"]] == ["Ours", "Theirs"]
    assert [row["name"] for row in part.document["data"]] == ["Theirs"]
    assert "public" in public.headers["Cache-Control"]
    assert "private" in part.headers["Cache-Control"]


async def test_who_sees_no_workspace_of_a_page_finds_none(site: Site) -> None:
    """The page, its JSON and its name are as unknown as any other."""
    headers = bearer(token_of("fred"))
    answers = [
        await site.get(f"/api/v1/status/{name}", headers=headers) for name in ("closed", "closes")
    ]

    assert [answer.status for answer in answers] == [404, 404]
    assert "did you mean" not in answers[1].text
