"""``alerts backtest``: reads what a daemon has recorded, and prints what other rules find in it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from monitor import logs
from monitor.alerting.backtest.backtest import backtest as run_backtest
from monitor.alerting.backtest.backtest import learning_rules
from monitor.alerting.backtest.recorded_log import RecordedLog
from monitor.alerting.backtest.replay import PartOfPlan, Parts
from monitor.alerting.backtest.rule_comparison import BacktestFiring, RuleComparison
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.cli import time_options
from monitor.cli.admin import AdminClient
from monitor.cli.daemon_address import DaemonAddress
from monitor.cli.row_layout import OutputForm
from monitor.cli.settings_files import read_toml
from monitor.cli.tables import print_csv, print_json, print_table
from monitor.config import SecretSource, parse_configuration
from monitor.model.errors import ConfigurationError, MonitorError, NoSuchObjectError
from monitor.model.live_state import WorkspaceStatus
from monitor.model.runs import RunKey, RunKind
from monitor.model.secrets import Secret
from monitor.tracking.pipeline_health import PipelineHealthTracker

_MOST_EVENTS = 1_000_000  # some ten minutes of evaluation
_MOST_PLAN_RUNS = 10_000  # one request for each, some milliseconds
_PAGE = 1_000
_CSV_FIELDS = (
    "difference", "starts_at", "rule", "fingerprint", "workspace", "pipeline", "summary",
    "not_recorded",
)  # fmt: skip
_SHOWN = 50  # differences in the table; the other forms have them all


class _Unread:
    """Stands for every secret and file: rules need none, and they may be missing here."""

    def read_secret(self, source: SecretSource) -> Secret:  # noqa: ARG002 - a Places
        return Secret(f"whsec_{'A' * 43}=")

    def find_file(self, path: str) -> str:
        return path


def backtest(config: Path, *, daemon: DaemonAddress, since: str, form: OutputForm) -> None:
    """Run the rules of ``config`` on the events of ``daemon`` and print which would have fired.

    As CSV the differences, one a row; wide, all of them below the counts.
    """
    logs.configure(level="error")  # the private engine logs about the past
    settings = parse_configuration(read_toml(config), os.environ, locations=_Unread()).alerting
    rows = asyncio.run(_compare(settings, daemon, time_options.since(since)))
    if form is OutputForm.JSON:
        print_json(rows)
        return
    if form is OutputForm.CSV:
        print_csv(_csv_rows(rows), _CSV_FIELDS)
        return
    most = _SHOWN if form is OutputForm.TABLE else None
    print_table(
        ("rule", "would fire", "did fire", "only new", "only old", "undecided"),
        [_row(row) for row in rows],
    )
    differences = [("new", firing) for row in rows for firing in row.only_new]
    differences += [("old", firing) for row in rows for firing in row.only_old]
    differences.sort(key=lambda difference: difference[1])
    _print_some(
        ("only", "since", "rule", "workspace", "pipeline", "summary"),
        [_difference(side, firing, firing.summary) for side, firing in differences],
        what="differences",
        most=most,
    )
    undecided = sorted(each for row in rows for each in row.undecided)
    _print_some(
        ("undecided", "since", "rule", "workspace", "pipeline", "not recorded"),
        [_difference(each.side, each.firing, each.why) for each in undecided],
        what="undecided alerts",
        most=most,
    )


def _csv_rows(rows: Iterable[RuleComparison]) -> list[dict[str, Any]]:
    firings = [("only_new", firing, "") for row in rows for firing in row.only_new]
    firings += [("only_old", firing, "") for row in rows for firing in row.only_old]
    undecided = [each for row in rows for each in row.undecided]
    firings += [(f"undecided_{each.side}", each.firing, each.why) for each in undecided]
    return [
        {**msgspec.to_builtins(firing), "difference": difference, "not_recorded": why}
        for difference, firing, why in sorted(firings, key=lambda found: found[1])
    ]


def _print_some(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, what: str, most: int | None
) -> None:
    """Print the first rows below what was printed before; nothing where there is none."""
    if not rows:
        return
    sys.stdout.write("\n")
    print_table(columns, rows[:most])
    if most is not None and len(rows) > most:
        sys.stderr.write(f"{len(rows) - most} more {what}: see --output wide\n")


async def _compare(
    settings: AlertingSettings, daemon: DaemonAddress, since: datetime
) -> list[RuleComparison]:
    with tempfile.TemporaryFile(prefix="dataprep-monitor-") as file:
        log = RecordedLog(file)
        client = AdminClient(daemon)
        workspaces = _workspaces(client)
        start = _start(client, since)
        _read(client, start, log)
        parts = _parts(client, log.plan_runs)
        if start > since:
            sys.stderr.write(f"the log begins at {_utc(start)}: nothing before is evaluated\n")
        if learning := learning_rules(settings):
            sys.stderr.write(
                f"{', '.join(learning)}: limits are learned again from the first of these events, "
                "so a pipeline's first runs are not evaluated\n"
            )
        rows = await run_backtest(
            settings,
            log,
            workspaces=workspaces,
            start=start,
            health_tracker=PipelineHealthTracker,
            parts=parts,
            on_progress=lambda at, share: _progress(f"evaluating {_utc(at)} ({share:.0%})"),
        )
        _progress("")
        return rows


def _start(client: AdminClient, since: datetime) -> datetime:
    """Return the first instant to evaluate: ``since``, or the beginning of the log.

    Raises:
        MonitorError: there is nothing to evaluate.
        ConfigurationError: there is too much.
    """
    from_since = {"since": since.isoformat()}
    pages = [_events(client, limit=1, **query) for query in ({}, from_since, {"last": "1"})]
    if not all(pages):
        raise MonitorError("the daemon has recorded no events since then; nothing is evaluated")
    oldest, first, newest = (page[0] for page in pages)
    count = newest.position - first.position + 1
    if count > _MOST_EVENTS:
        raise ConfigurationError(
            f"--since: there are {count:,} events since then, and {_MOST_EVENTS:,} can be "
            "evaluated at a time; begin later"
        )
    return max(since, oldest.event.recorded_at)


def _workspaces(client: AdminClient) -> list[WorkspaceStatus]:
    rows = (client.get("/api/v1/workspaces"))["data"]
    schedules = {
        row["workspace"]: row["schedules"] for row in (client.get("/api/v1/schedules"))["data"]
    }
    names = ("workspace", "edition", "capabilities", "followed_since", "known_at")
    return [
        msgspec.convert(
            {**{name: row[name] for name in names}, "schedules": schedules[row["workspace"]]},
            WorkspaceStatus,
        )
        for row in rows
    ]


def _read(client: AdminClient, start: datetime, log: RecordedLog) -> None:
    page = _events(client, limit=_PAGE, since=start.isoformat())
    log.append(page)
    # What is recorded meanwhile is read too, but not without end.
    while len(page) == _PAGE and len(log) <= _MOST_EVENTS:
        _progress(f"reading: {len(log):,} events")
        page = _events(client, limit=_PAGE, after=str(page[-1].position))
        log.append(page)
    _progress("")


def _parts(client: AdminClient, plan_runs: Iterable[RunKey]) -> Parts:
    """Return the runs inside plan runs. Events are made before the workspace links them."""
    parts: dict[RunKey, list[PartOfPlan]] = {}
    newest = list(plan_runs)[-_MOST_PLAN_RUNS:]
    for number, run in enumerate(newest, 1):
        try:
            found = client.get(f"/api/v1/runs/{run.workspace}/{run.kind}/{quote(run.id)}")
        except NoSuchObjectError:
            continue  # the daemon has forgotten it
        parts[run] = [
            PartOfPlan(
                key=RunKey(row["workspace"], RunKind(row["kind"]), row["id"]),
                created_at=msgspec.convert(row["created_at"], datetime | None),
            )
            for row in found["children"]
        ]
        if number % _PAGE == 0:
            _progress(f"reading: {number:,} of {len(newest):,} plan runs")
    _progress("")
    return parts


def _events(client: AdminClient, *, limit: int, **query: str) -> list[Recorded]:
    page = client.get("/api/v1/log", {"limit": str(limit), **query})
    return msgspec.convert(page["data"], list[Recorded])


def _progress(text: str) -> None:
    """Overwrite the line of progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _row(row: RuleComparison) -> Sequence[str]:
    if row.not_recorded:
        return (row.rule, "not recorded", str(row.did_fire), "-", "-", "-")
    differences = (row.only_new, row.only_old, row.undecided)
    counts = (row.would_fire, row.did_fire, *map(len, differences))
    return (row.rule, *map(str, counts))


def _difference(side: str, firing: BacktestFiring, text: str) -> Sequence[str]:
    since = firing.starts_at.isoformat(timespec="seconds")
    return (side, since, firing.rule, firing.workspace, firing.pipeline or "-", text or "-")
