"""``doctor`` notices a match of the configuration that no flow or plan fits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting.alerts.silences import SilenceSettings
from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.settings import AlertingSettings
from monitor.catalogue.operations import Edition
from monitor.cli.doctor_checks import matches
from monitor.model.checks import CheckLine, CheckOutcome
from monitor.model.secrets import Secret
from monitor.outputs.notify.settings import ChannelMatch, ChannelSettings, NotifySettings
from tests.cli.doctor_scenario import EditionWorkspace, run_checks, workspace_at
from tests.clocks import ManualClock
from tests.polling.tiny_workspace import NO_ROUTE, OVERLOADED

Lines = dict[str, CheckLine]


@pytest.fixture
async def workspace() -> AsyncIterator[EditionWorkspace]:
    """Return a workspace with two flows, one of them in a folder, and a plan."""
    made = EditionWorkspace(ManualClock())
    made.become(Edition.RL)
    made.tables["flows"] |= {
        11: {"id": 11, "name": "Orders daily", "folder": {"id": 3, "name": "Finance"}},
        12: {"id": 12, "name": "Refunds"},
    }
    made.tables["plans"] |= {7: {"id": 7, "name": "Month end"}}
    await made.start()
    yield made
    await made.stop()


def rule(**match: tuple[str, ...]) -> RuleSettings:
    return RuleSettings(
        name="orders_late", rule=RuleKind.DEADLINE_MISSED, deadline="07:00", match=Match(**match)
    )


def channel(**match: tuple[str, ...]) -> ChannelSettings:
    return ChannelSettings(
        name="team", url=Secret("json://127.0.0.1:9/"), match=ChannelMatch(**match)
    )


async def match_lines(
    folder: Path,
    workspace: EditionWorkspace,
    *tables: RuleSettings | ChannelSettings | ReportSettings | SilenceSettings,
) -> Lines:
    """Return the lines about matches, by their subjects."""
    channels = tuple(table for table in tables if isinstance(table, ChannelSettings))
    report = await run_checks(
        folder,
        workspace_at(workspace.url),
        clock=workspace.clock,
        alerting=AlertingSettings(
            rules=tuple(table for table in tables if isinstance(table, RuleSettings)),
            silences=tuple(table for table in tables if isinstance(table, SilenceSettings)),
        ),
        notify=NotifySettings(channels=channels) if channels else None,
        reports=tuple(table for table in tables if isinstance(table, ReportSettings)),
    )
    return {subject: line for subject, line in report.items() if "match" in subject}


async def test_each_table_that_fits_nothing_is_a_warning(
    tmp_path: Path, workspace: EditionWorkspace
) -> None:
    """With the closest name; rules, channels, reports and silences alike."""
    ends_at = workspace.clock.now() + timedelta(hours=1)
    lines = await match_lines(
        tmp_path,
        workspace,
        rule(pipeline=("Ordrs daily",)),
        channel(folder=("Finanze*",)),
        ReportSettings(name="night", at="0 7 * * *", match=ReportMatch(pipeline=("refunds", "7"))),
        SilenceSettings(matchers=("pipeline=Month*", "rule=x"), comment="c", ends_at=ends_at),
        SilenceSettings(matchers=("pipeline=Monht*",), comment="c", ends_at=ends_at),
    )
    assert {line.outcome for line in lines.values()} == {CheckOutcome.WARNING}
    assert {subject: line.found for subject, line in lines.items()} == {
        "match of rule orders_late": (
            'no flow or plan fits "Ordrs daily"; did you mean Orders daily?'
        ),
        "match of channel team": 'no folder of a flow fits "Finanze*"; did you mean Finance?',
        "match of report night": 'no flow or plan fits "refunds"; did you mean Refunds?',
        "match of silence pipeline=Monht*": (
            'no flow or plan fits "Monht*"; did you mean Month end?'
        ),
    }
    assert all("may not see it" in str(line.hint) for line in lines.values())


async def test_what_fits_is_one_line(tmp_path: Path, workspace: EditionWorkspace) -> None:
    """By name or id; an exclusion may fit nothing, and a silence that is over is not compared."""
    over = workspace.clock.now() - timedelta(hours=1)
    lines = await match_lines(
        tmp_path,
        workspace,
        rule(pipeline=("11", "Month*", "!Test*"), folder=("Fin*",)),
        channel(pipeline=("!Test*",)),
        SilenceSettings(matchers=("pipeline=gone",), comment="c", ends_at=over),
    )
    assert {subject: (line.outcome, line.found) for subject, line in lines.items()} == {
        "match": (CheckOutcome.OK, "2 that name flows or plans fit some")
    }


@pytest.mark.parametrize(
    "table",
    [
        rule(pipeline=("Refunds",), folder=("Finance",)),
        channel(pipeline=("Refunds",), kind=("plan_run",)),
    ],
)
async def test_keys_must_fit_one_flow_together(
    tmp_path: Path, workspace: EditionWorkspace, table: RuleSettings | ChannelSettings
) -> None:
    """Each of them fits something, and no flow of that name is in that folder, or is a plan."""
    (line,) = (await match_lines(tmp_path, workspace, table)).values()
    assert line.outcome is CheckOutcome.WARNING
    assert line.found == "each of its globs fits something, but no flow or plan fits all its keys"


async def test_of_many_globs_that_fit_nothing_some_are_named(
    tmp_path: Path, workspace: EditionWorkspace
) -> None:
    """The others are counted, so that the line stays short and the check too."""
    gone = tuple(f"zzz{number}" for number in range(1_000))
    (line,) = (await match_lines(tmp_path, workspace, rule(pipeline=gone))).values()
    assert line.found.count('no flow or plan fits "zzz') == 5
    assert line.found.endswith("; and 995 more fit no flow or plan")


async def test_without_such_globs_nothing_more_is_read(
    tmp_path: Path, workspace: EditionWorkspace
) -> None:
    """The lists of flows and plans are read once, as ever, and there is no line."""
    plain = channel(severity=("critical",))
    assert await match_lines(tmp_path, workspace, rule(), plain) == {}
    before = [path for path, _ in workspace.requests].count("flows")
    workspace.requests.clear()
    await match_lines(tmp_path, workspace, rule(pipeline=("Refunds",)))
    assert [path for path, _ in workspace.requests].count("flows") == before + 1


async def test_folders_that_lists_show_by_id_have_names(
    tmp_path: Path, workspace: EditionWorkspace
) -> None:
    """Read from the list of folders; where there is none the id stands in."""
    workspace.tables["flows"][12]["folder"] = {"id": 4}
    workspace.tables["folders"] = {4: {"id": 4, "name": "Shop"}}
    lines = await match_lines(tmp_path, workspace, rule(folder=("Shop",)))
    assert lines["match"].outcome is CheckOutcome.OK
    workspace.refuse("listFolders", NO_ROUTE)
    lines = await match_lines(tmp_path, workspace, rule(folder=("Shop",)))
    assert lines["match of rule orders_late"].found == (
        'no folder of a flow fits "Shop"; there are Finance, 4'
    )


@pytest.mark.parametrize("why", ["refused", "too many", "failing"])
async def test_lists_that_are_not_whole_prove_nothing(
    tmp_path: Path, workspace: EditionWorkspace, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """No warning follows from a list that is not offered, or that is longer than is read."""
    if why == "refused":
        workspace.refuse("listPlans", NO_ROUTE)
    elif why == "failing":
        workspace.refuse("listFolders", OVERLOADED)
        workspace.tables["flows"][12]["folder"] = {"id": 4}
    else:
        monkeypatch.setattr(matches, "_MOST_PAGES", 1)
    wanted: Any = {"folder": ("gone",), "pipeline": ("gone",)}
    lines = await match_lines(tmp_path, workspace, rule(**wanted))
    assert lines["match"].outcome is CheckOutcome.OK
    assert lines["match"].found == "not compared where it is about acme: no whole lists"
    assert "match of rule orders_late" not in lines
    assert ("acme match" in lines) is (why == "failing")
