"""Deadlines on the calendar and on the page of a pipeline."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from monitor.model.alerts import PipelineDeadlines
from monitor.model.runs import PipelineKind, RunKind, Status
from tests.web.site import Site


def show(site: Site, **missed_at: datetime | None) -> datetime:
    """Let flows have deadlines in three hours, and return when; None: nothing is missed."""
    due = site.clock.now() + timedelta(hours=3)
    for number, name in enumerate(missed_at):
        site.live_state.name_pipeline("acme", PipelineKind.FLOW, str(number), name)
    site.alerting.show(
        deadlines={
            ("acme", RunKind.FLOW_RUN, str(number)): PipelineDeadlines(
                next_at=due, missed_at=at, met=1_234, missed=2
            )
            for number, at in enumerate(missed_at.values())
        }
    )
    return due


async def test_the_calendar_has_the_deadlines_missed_ones_first(site: Site) -> None:
    """Of pipelines without a visible schedule too; the filters hold for them as well."""
    missed_at = site.clock.now() - timedelta(hours=1)
    due = show(site, orders=None, refunds=missed_at)
    rows = (await site.get("/api/v1/schedules/starts")).document["deadlines"]
    assert [row["name"] for row in rows] == ["refunds", "orders"]
    assert datetime.fromisoformat(rows[1]["next_at"]) == due
    assert (rows[1]["missed_at"], rows[1]["met"], rows[1]["missed"]) == (None, 1_234, 2)
    found = (await site.get("/api/v1/schedules/starts?pipeline=orders")).document["deadlines"]
    assert [row["name"] for row in found] == ["orders"]
    page = re.sub(r"<[^>]+>|\s+", " ", (await site.get("/schedules")).text)
    assert "1,234 met, 2 missed" in page


async def test_a_pipeline_shows_its_deadline_beside_its_next_start(site: Site) -> None:
    """And since when one is missed; a pipeline without a deadline has no such line."""
    show(site, orders=site.clock.now() - timedelta(hours=1))
    await site.observe(site.run("1", Status.SUCCEEDED))
    shown = (await site.get("/api/v1/pipelines/acme/flow/0")).document
    assert shown["deadlines"]["missed"] == 2
    page = (await site.get("/pipelines/acme/flow/0")).text
    assert "<dt>Deadline</dt>" in page
    assert '<span class="mark missed">missed' in page
    other = await site.get("/pipelines/acme/flow/7")
    assert other.status == 200
    assert "<dt>Deadline</dt>" not in other.text


async def test_without_deadlines_the_calendar_says_nothing_of_them(site: Site) -> None:
    """No heading stands over an empty list."""
    assert 'id="deadlines"' not in (await site.get("/schedules")).text
