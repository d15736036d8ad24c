"""The page and the JSON of reports: which stretch is shown, how it reads, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.model.reports import Report, ReportPeriod, UnwatchedTime
from monitor.web.settings import ServerSettings
from tests.web.sample_reports import failure, shown
from tests.web.serving import serving
from tests.web.site import Site

HOUR = timedelta(hours=1)
NIGHTLY = ReportSettings(
    name="last-night",
    at="0 7 * * *",
    time_zone="Europe/Berlin",
    match=ReportMatch(pipeline=("Orders*",)),
)
WEEKLY = ReportSettings(name="weekly", at="0 8 * * 1", period=ReportPeriod.WEEK)


def hours(site: Site) -> tuple[str, str]:
    """Return begin and end of the report that was asked for last."""
    query = site.alerting.reports_asked[-1]
    return f"{query.since:%d %H:%M}", f"{query.until:%d %H:%M}"


@pytest.fixture
async def configured(tmp_path: Path) -> AsyncIterator[Site]:
    """Yield a server whose daemon has two reports."""
    settings = ServerSettings(listen="127.0.0.1:0")
    async with serving(tmp_path, settings, reports=(WEEKLY, NIGHTLY)) as site:
        yield site


async def test_without_a_report_the_last_night_is_shown(site: Site) -> None:
    """From 18:00 on, at most until 08:00; in the evening still the night before."""
    await site.get("/api/v1/report")
    assert hours(site) == ("20 18:00", "21 08:00")
    await site.get("/api/v1/report?until=2026-11-21T03:00:00Z")
    assert hours(site) == ("20 18:00", "21 03:00")
    await site.get("/api/v1/report?until=2026-11-20T22:00:00Z")
    assert hours(site) == ("19 18:00", "20 08:00")


async def test_the_first_configured_night_is_the_last_night(configured: Site) -> None:
    """As it was last due, in its time zone, with what it matches."""
    found = (await configured.get("/api/v1/report")).document
    assert hours(configured) == ("20 17:00", "21 06:00")
    assert (found["name"], found["time_zone"]) == ("last-night", "Europe/Berlin")
    assert found["names"] == ["weekly", "last-night"]
    assert configured.alerting.reports_asked[-1].match.pipeline == ("Orders*",)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("period=day", ("20 10:00", "21 10:00")),
        ("period=week", ("14 10:00", "21 10:00")),
        (
            "period=day&until=2026-11-22T00:00:00Z",
            ("21 00:00", "21 10:00"),
        ),  # as far as it has come
        ("period=week&until=2026-11-23T00:00:00Z", ("16 00:00", "21 10:00")),
        ("period=night&until=2026-11-21T08:00:00Z", ("20 18:00", "21 08:00")),
        ("since=24h", ("20 10:00", "21 10:00")),
        ("since=2026-11-20T18:00:00Z&until=2026-11-21T07:00:00Z", ("20 18:00", "21 07:00")),
        ("since=2h&until=2027-01-01T00:00:00Z", ("21 08:00", "21 10:00")),  # never the future
    ],
)
async def test_a_stretch_is_chosen(site: Site, query: str, expected: tuple[str, str]) -> None:
    """By period, or by begin and end."""
    answer = await site.get(f"/api/v1/report?{query}")
    assert answer.status == 200
    assert hours(site) == expected


async def test_a_report_is_chosen_by_its_name(configured: Site) -> None:
    """As it was last due, and what is asked for stands in place of what it matches."""
    await configured.get("/api/v1/report?name=weekly")
    assert hours(configured) == ("09 08:00", "16 08:00")
    await configured.get("/api/v1/report?name=last-night&workspace=acme&pipeline=sales")
    match = configured.alerting.reports_asked[-1].match
    assert (match.workspace, match.pipeline) == (("acme",), ("sales",))


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("name=lst-night", "name: 'lst-night' is not known; did you mean last-night?"),
        ("name=weekly&since=2h", "name: a configured report has its own since and period"),
        ("workspace=acm", "workspace: 'acm' is not known; did you mean acme?"),
        ("period=month", "period: 'month' is none of night, day, week"),
        ("since=yesterday", "since: 'yesterday' is not an ISO 8601 instant, nor a time such as"),
        ("since=2026-11-21T09:00:00Z&until=2026-11-21T08:00:00Z",
         "since: is not before the end of the report"),
        ("since=90d", "since: a report covers at most 62 days, of the last 400"),
        ("since=2024-01-01T00:00:00Z&until=2026-11-20T00:00:00Z",
         "since: a report covers at most 62 days, of the last 400"),
        ("until=2026-11-21T08:00:00", "until: '2026-11-21T08:00:00' names no time zone"),
        ("period=day&until=2026-11-22T10:00:00Z", "until: that day has not begun yet"),
        ("period=week&until=9999-12-31T23:59:59Z", "until: that week has not begun yet"),
        ("until=0001-01-02T00:00:00Z&period=week", "until: is more than 400 days ago"),
        ("pipeline=!*", 'pipeline: "!*" excludes everything; remove it'),
    ],
)  # fmt: skip
async def test_what_cannot_be_reported_is_one_sentence(
    configured: Site, query: str, detail: str
) -> None:
    """An unknown name, a stretch that is none, a time without a zone."""
    answer = await configured.get(f"/api/v1/report?{query}")
    assert answer.status == 400
    assert answer.document["detail"].startswith(detail)


async def test_the_page_shows_failures_outages_and_what_is_missing(site: Site) -> None:
    """With links to pipelines, runs and the workspace; without a script, and not refreshed."""
    at = datetime(2026, 11, 21, 1, tzinfo=UTC)
    site.alerting.report = shown(
        failed_and_still_failing=(failure(),),
        failed_and_recovered=(failure(recovered_at=at, pipeline="sales"),),
        unwatched=(
            UnwatchedTime(workspace="acme", since=at, until=at + HOUR, why="it did not answer"),
        ),
        missing=("acme: runs that ended before 2026-11-20T20:00:00Z are forgotten",),
    )

    text = (await site.get("/reports")).text

    assert '<a href="/pipelines/acme/flow/7"><bdi>orders</bdi></a>' in text
    assert '<a href="/runs/acme/job_group/17">' in text
    assert "orders is still failing; sales failed and recovered; acme was not watched" in text
    assert "it did not answer" in text
    assert "(1 h)" in text
    assert "are forgotten" in text
    assert "sse-connect" not in text
    assert '<a href="/reports" aria-current="page">Reports</a>' in text


async def test_names_with_markup_are_text(site: Site) -> None:
    """Whatever a name, a reason or an owner holds."""
    evil = '<script>alert("x")</script>'
    site.alerting.report = shown(
        failed_and_still_failing=(failure(pipeline=evil, reason=evil, owner=evil, part=evil),),
        missing=(evil,),
    )

    text = (await site.get("/reports")).text

    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert") >= 5


async def test_the_json_is_the_report(site: Site) -> None:
    """What a script gets can be read back as the public shape, with nothing lost."""
    site.alerting.report = shown(failed_and_still_failing=(failure(),))

    document = (await site.get("/api/v1/report?since=24h")).document

    read = msgspec.convert(document, Report)
    assert read.failed_and_still_failing == (failure(),)
    assert read.verdict == "orders is still failing."
