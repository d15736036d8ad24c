"""Reports in the configuration: one problem for each mistake, and what has none can be used."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.model.events import EventType
from monitor.model.reports import ReportPeriod
from monitor.outputs.notify.settings import NotifySettings
from tests.config.settings_tables import channel, file, parsed, problems, report


def test_a_report_is_read_as_it_is_written() -> None:
    """Its time stays in plain cron, and one glob is a list of one."""
    mapping = file(
        reports=[
            report(time_zone="Europe/Berlin", match={"pipeline": "Orders*"}),
            report(name="week", at="0 8 * * 1", period="week"),
        ]
    )

    first, second = parsed(mapping).reports

    assert first == ReportSettings(
        name="last-night",
        at="0 7 * * *",
        time_zone="Europe/Berlin",
        match=ReportMatch(pipeline=("Orders*",)),
    )
    assert (first.expression, first.since) == ("0 0 7 * * ?", "18:00")
    assert second.period is ReportPeriod.WEEK


@pytest.mark.parametrize(
    ("reports", "sentence"),
    [
        (
            [report(at="30 2 * * *", time_zone="Europe/Berlin")],
            (
                'reports[0].at: "30 2 * * *": 02:30 is skipped on 2026-03-29, when clocks in '
                "Europe/Berlin go forward; choose a time that every day has"
            ),
        ),
        (
            [report(), report(at="0 8 * * *")],
            ('reports[1].name: "last-night": is the name of reports[0] already; choose another'),
        ),
        (
            [report(at="30 2 * * *", time_zone="Europe/Belin")],
            ('reports[0].time_zone: "Europe/Belin": is no time zone; did you mean Europe/Berlin?'),
        ),
        (
            [report(at="0 7 30 2 *", time_zone="Europe/Berlin")],
            'reports[0].at: "0 7 30 2 *": never comes true; write a day that there is',
        ),
        (
            [report(match={"workspace": "marketting"})],
            (
                'reports[0].match.workspace: ["marketting"]: no workspace fits "marketting"; did '
                "you mean marketing?"
            ),
        ),
        (
            [report(channels=["tema"])],
            ("reports[0].channels: [\"tema\"]: no channel is named 'tema'; did you mean team?"),
        ),
        (
            report(),
            "reports: (a table): there may be several: write [[reports]]",
        ),
    ],
)
def test_each_mistake_is_one_problem(reports: Any, sentence: str) -> None:
    """A time that is skipped, a zone that is unknown, a cron that never comes, a name twice."""
    assert problems(file(reports=reports, notify=[channel()])) == [sentence]


def test_a_channel_knows_the_reports_that_name_it() -> None:
    """Each report goes to the channels that it names, and to no other."""
    made = parsed(
        file(
            reports=[report(channels=["team"]), report(name="weekly", channels=["team", "chat"])],
            notify=[channel(), channel("chat"), channel("other")],
        )
    )
    notify = made.output(NotifySettings)
    assert notify is not None
    names = [settings.reports for settings in notify.channels]
    assert names == [("last-night", "weekly"), ("weekly",), ()]


def test_a_channel_may_have_reports_alone() -> None:
    """A channel that a report names needs no event of its own; one that none names does."""
    readers = {**channel("readers"), "events": []}
    made = parsed(file(reports=[report(channels=["readers"])], notify=[readers]))
    notify = made.output(NotifySettings)
    assert notify is not None
    assert notify.channels[0].types == {EventType.REPORT_DUE}
    assert problems(file(reports=[report(channels=["team"])], notify=[channel(), readers])) == [
        (
            "notify[1].events: []: name at least one event, such as fired, or let a report name "
            "the channel"
        )
    ]


def test_a_pager_gets_no_report() -> None:
    """A report is no incident: a channel that opens one for it is a problem."""
    pager = channel("pager", url_file="/run/secrets/pager")
    assert problems(file(reports=[report(channels=["pager"])], notify=[pager])) == [
        (
            'reports[0].channels: ["pager"]: pager opens an incident for what it is sent; name a '
            "channel for mail or chat"
        )
    ]
