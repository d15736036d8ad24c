"""Links of a report to other stretches of time: what each leads to, and where there is none."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.model.reports import ReportPeriod
from monitor.web.settings import ServerSettings
from monitor.web.views.reports.stretches import (
    OtherStretch,
    ShownReport,
    StretchChoices,
    stretches_beside,
)
from tests.web.serving import serving
from tests.web.site import Site

WEEKLY = ReportSettings(name="weekly", at="0 8 * * 1", period=ReportPeriod.WEEK)
NIGHTLY = ReportSettings(
    name="last-night",
    at="0 7 * * *",
    time_zone="Europe/Berlin",
    match=ReportMatch(pipeline=("Orders*",)),
)
_SHOWN = re.compile(r'report-title">.*?datetime="(.*?)".*?datetime="(.*?)"')
_LINK = re.compile(r'<a class="button"[^>]* href="([^"]*)"[^>]*>(.*?)</a>')
_MARKED = re.compile(r'aria-current="true">(.*?)</a>')


def words(markup: str) -> str:
    return re.sub(r"<[^>]*>", "", markup).strip()


class Reader:
    """Opens pages of reports and follows their links."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.links: dict[str, str] = {}
        self.marked: list[str] = []

    async def open(self, path: str) -> str:
        """Return begin and end of the report on a page."""
        text = (await self.site.get(path)).text
        self.links = {words(title): html.unescape(url) for url, title in _LINK.findall(text)}
        self.marked = [words(title) for title in _MARKED.findall(text)]
        begin, end = map(datetime.fromisoformat, _SHOWN.findall(text)[0])
        return f"{begin:%m-%d %H:%M} to {end:%m-%d %H:%M}"

    async def follow(self, title: str) -> str:
        return await self.open(self.links[title])


@pytest.fixture
def reader(site: Site) -> Reader:
    return Reader(site)


@pytest.fixture
async def configured(tmp_path: Path) -> AsyncIterator[Reader]:
    """Yield a reader of pages of a daemon that has two reports."""
    settings = ServerSettings(listen="127.0.0.1:0")
    async with serving(tmp_path, settings, reports=(WEEKLY, NIGHTLY)) as site:
        yield Reader(site)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Last night", "11-20 18:00 to 11-21 08:00"),
        ("Yesterday", "11-20 00:00 to 11-21 00:00"),
        ("24 hours", "11-20 10:00 to 11-21 10:00"),
        ("This week", "11-16 00:00 to 11-21 10:00"),
        ("Last week", "11-09 00:00 to 11-16 00:00"),
        ("7 days", "11-14 10:00 to 11-21 10:00"),
    ],
)
async def test_a_link_leads_to_its_stretch(reader: Reader, title: str, expected: str) -> None:
    """From any page; it is marked there, and what was filtered stays so."""
    await reader.open("/reports?since=2h&workspace=acme")
    assert reader.marked == []
    assert await reader.follow(title) == expected
    assert reader.marked == [title]
    assert all("workspace=acme" in url for url in reader.links.values())


async def test_the_stretch_before_leads_back(reader: Reader) -> None:
    """Day by day, week by week, night by night; of any other stretch, one of the same length."""
    await reader.open("/reports")
    assert await reader.follow("Previous night") == "11-19 18:00 to 11-20 08:00"
    assert await reader.follow("Previous night") == "11-18 18:00 to 11-19 08:00"
    assert await reader.follow("Next night") == "11-19 18:00 to 11-20 08:00"
    await reader.follow("Last week")
    assert await reader.follow("Previous week") == "11-02 00:00 to 11-09 00:00"
    assert await reader.follow("Next week") == "11-09 00:00 to 11-16 00:00"
    assert reader.marked == ["Last week"]
    await reader.open("/reports?since=2026-11-20T08:00:00Z&until=2026-11-20T10:00:00Z")
    assert await reader.follow("Previous") == "11-20 06:00 to 11-20 08:00"
    assert await reader.follow("Next") == "11-20 08:00 to 11-20 10:00"


async def test_the_stretch_after_is_as_long_as_it_has_come(reader: Reader) -> None:
    """After yesterday comes today, and after last week this one; nothing after what goes on."""
    await reader.open("/reports?since=2026-11-20T22:00:00Z&until=2026-11-21T06:00:00Z")
    assert await reader.follow("Next") == "11-21 06:00 to 11-21 10:00"
    assert "Next" not in reader.links
    await reader.follow("Yesterday")
    assert await reader.follow("Next day") == "11-21 00:00 to 11-21 10:00"
    assert "Next day" not in reader.links
    assert await reader.follow("Previous day") == "11-20 00:00 to 11-21 00:00"
    await reader.follow("Last week")
    assert await reader.follow("Next week") == "11-16 00:00 to 11-21 10:00"
    assert reader.marked == ["This week"]
    assert "Next week" not in reader.links


async def test_a_configured_report_is_followed_as_it_is_due(configured: Reader) -> None:
    """In its time zone, and by its name; the next one is linked once it is due."""
    assert await configured.open("/reports") == "11-20 17:00 to 11-21 06:00"
    assert configured.marked == ["last-night"]
    assert "Next night" not in configured.links
    assert await configured.follow("Previous night") == "11-19 17:00 to 11-20 06:00"
    assert await configured.follow("Next night") == "11-20 17:00 to 11-21 06:00"
    assert await configured.follow("weekly") == "11-09 08:00 to 11-16 08:00"
    assert configured.marked == ["weekly"]
    assert "Next week" not in configured.links
    assert await configured.follow("Previous week") == "11-02 08:00 to 11-09 08:00"
    # Days and weeks of the calendar are in the time zone of the night.
    assert await configured.follow("Yesterday") == "11-19 23:00 to 11-20 23:00"
    assert await configured.follow("This week") == "11-15 23:00 to 11-21 10:00"


async def test_no_link_leads_to_what_cannot_be_reported(reader: Reader) -> None:
    """The stretch before would begin more than 400 days ago."""
    await reader.open("/reports?period=day&until=2025-10-18T10:00:00Z")
    assert "Previous day" not in reader.links
    assert await reader.follow("Next day") == "10-18 10:00 to 10-19 10:00"
    assert await reader.follow("Previous day") == "10-17 10:00 to 10-18 10:00"


async def test_no_link_leads_to_what_was_due_too_long_ago(configured: Reader) -> None:
    """The configured report before would begin more than 400 days ago."""
    await configured.open("/reports?name=weekly&until=2025-10-27T08:00:00Z")
    assert "Previous week" not in configured.links
    assert "Next week" in configured.links


async def test_a_script_gets_the_same_stretches(site: Site) -> None:
    """Begin and end of each; null where there is none."""
    found = (await site.get("/api/v1/report?period=day")).document["stretches"]
    assert found["previous"] == {
        "since": "2026-11-19T10:00:00Z",
        "until": "2026-11-20T10:00:00Z",
    }
    assert found["next"] is None
    assert found["this_week"]["until"] == "2026-11-23T00:00:00Z"


def beside(begin: datetime, period: ReportPeriod | None, *, now: datetime) -> StretchChoices:
    query = ReportQuery(since=begin, until=now, time_zone="Europe/Berlin")
    oldest = now - timedelta(days=400)
    shown = ShownReport(query=query, period=period)
    return stretches_beside(shown, zone="Europe/Berlin", now=now, oldest=oldest)


def test_days_and_weeks_are_those_of_the_wall_clock() -> None:
    """A day is of 25 hours, and a week an hour longer, where clocks go back in between."""
    now = datetime(2026, 10, 26, 9, tzinfo=UTC)  # Monday; clocks went back on Sunday
    midnight = datetime(2026, 10, 25, 23, tzinfo=UTC)
    found = beside(midnight, ReportPeriod.DAY, now=now)
    sunday = OtherStretch(since=datetime(2026, 10, 24, 22, tzinfo=UTC), until=midnight)
    assert found.yesterday == found.previous == sunday
    assert found.last_week.since == datetime(2026, 10, 18, 22, tzinfo=UTC)
    assert found.last_week.until == found.this_week.since == midnight
    week = beside(found.last_week.since, ReportPeriod.WEEK, now=now)
    assert week.next == found.this_week
