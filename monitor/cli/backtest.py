"""``alerts backtest``: other rules on what a running daemon has recorded."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from monitor import logs
from monitor.alerting.backtest import Compared, Firing, compared, firings
from monitor.alerting.settings.engine import AlertingSettings
from monitor.app.backtesting import Backtest, known_until
from monitor.bus.contract import Recorded
from monitor.cli import asking
from monitor.cli.admin import AdminClient
from monitor.cli.settings_files import read_toml
from monitor.cli.tables import print_json, print_table
from monitor.config import SecretSource, judge
from monitor.model.errors import ConfigurationError, MonitorError
from monitor.model.events import RunEvent
from monitor.model.knowledge import ScheduleKnown, WorkspaceStanding
from monitor.model.secrets import Secret

_MOST_EVENTS = 1_000_000
_PAGE = 1_000
_SLICE = 500
_SHOWN = 50  # differences in the table; --json has them all
_DECODER = msgspec.json.Decoder(Recorded)
_ENCODER = msgspec.json.Encoder()
_COLUMNS = ("rule", "would fire", "did fire", "only new", "only old")


class _Unread:
    """Stands for every secret and file: rules need none, and may be written where none is."""

    def read_secret(self, source: SecretSource) -> Secret:  # noqa: ARG002 - a Places
        return Secret(f"whsec_{'A' * 43}=")

    def find_file(self, path: str) -> str:
        return path


def backtest(config: Path, *, daemon: Path, since: str, as_json: bool) -> None:
    """Judge the recorded events by the rules of a file and print what would have been told."""
    # What the private engine logs is of a past that is over.
    logs.configure(level="error")
    settings = judge(read_toml(config), os.environ, places=_Unread()).alerting
    start = asking.since(since)
    rows = asyncio.run(_compare(settings, daemon, start))
    if as_json:
        print_json(rows)
        return
    print_table(_COLUMNS, [_row(one) for one in rows])
    differences = [("new", one) for row in rows for one in row.only_new]
    differences += [("old", one) for row in rows for one in row.only_old]
    if differences:
        sys.stdout.write("\n")
        shown = sorted(differences, key=lambda one: one[1])[:_SHOWN]
        print_table(
            ("only", "since", "rule", "workspace", "pipeline", "summary"),
            [_difference(which, one) for which, one in shown],
        )
        if len(differences) > _SHOWN:
            sys.stderr.write(f"{len(differences) - _SHOWN} more differences: see --json\n")


async def _compare(settings: AlertingSettings, daemon: Path, start: datetime) -> list[Compared]:
    with tempfile.TemporaryDirectory(prefix="dataprep-monitor-") as folder:
        spool = Path(folder) / "events.jsonl"
        async with AdminClient.of(daemon) as client:
            workspaces = await _workspaces(client)
            start = max(start, await _oldest(client) or start)
            times = await _fetched(client, start, spool)
        if not times:
            raise MonitorError("the daemon has recorded no events since then; nothing is judged")
        test = await Backtest.opened(
            settings, workspaces=workspaces, folder=Path(folder), start=start
        )
        did: list[Firing] = []
        until = known_until(times)
        try:
            for first, some in _slices(spool):
                _tell_progress(some[0])
                await test.judge(some, until[first : first + len(some)])
                did += firings(one.event for one in some)
            await test.end()
            if sys.stderr.isatty():
                sys.stderr.write("\r\n")
            would = firings(await test.told())
        finally:
            await test.close()
    return compared(settings.rules, would, did)


async def _oldest(client: AdminClient) -> datetime | None:
    """Return when the log begins: of what was before, nobody knows whether it happened."""
    page = await client.get("/api/v1/events", {"limit": "1"})
    some = msgspec.convert(page["data"], list[Recorded])
    return some[0].event.recorded_at if some else None


async def _workspaces(client: AdminClient) -> list[WorkspaceStanding]:
    """Return the workspaces as they stand today: the log does not hold how they stood."""
    told = (await client.get("/api/v1/workspaces"))["data"]
    schedules = {one["workspace"]: one for one in (await client.get("/api/v1/schedules"))["data"]}
    return [
        WorkspaceStanding(
            workspace=one["workspace"],
            edition=one["edition"],
            capabilities=frozenset(one["capabilities"]),
            followed_since=msgspec.convert(one["followed_since"], datetime | None),
            schedules=msgspec.convert(
                schedules[one["workspace"]]["schedules"], tuple[ScheduleKnown, ...]
            ),
        )
        for one in told
    ]


async def _fetched(
    client: AdminClient, start: datetime, spool: Path
) -> list[tuple[datetime, datetime]]:
    """Keep the events in a file, one a line; return when each was recorded and happened."""
    times: list[tuple[datetime, datetime]] = []
    query = {"limit": str(_PAGE), "since": start.isoformat()}
    with spool.open("wb") as file:
        while True:
            page = await client.get("/api/v1/events", query)
            some = msgspec.convert(page["data"], list[Recorded])
            for one in some:
                file.write(_ENCODER.encode(one) + b"\n")
                times.append(_times(one))
            if len(some) < _PAGE:
                return times
            if len(times) >= _MOST_EVENTS:
                raise ConfigurationError(
                    f"--since: there are more than {_MOST_EVENTS:,} events; begin later"
                )
            query = {"limit": str(_PAGE), "after": str(page["next"])}


def _tell_progress(recorded: Recorded) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rjudging {recorded.event.recorded_at:%Y-%m-%d %H:%M}")
        sys.stderr.flush()


def _times(recorded: Recorded) -> tuple[datetime, datetime]:
    event = recorded.event
    # What alerts and workspaces themselves did was never noticed late.
    is_noticed = isinstance(event, RunEvent) and event.occurred_at is not None
    return event.recorded_at, (event.occurred_at if is_noticed else None) or event.recorded_at


def _slices(spool: Path) -> Iterator[tuple[int, list[Recorded]]]:
    first, some = 0, list[Recorded]()
    with spool.open("rb") as file:
        for line in file:
            some.append(_DECODER.decode(line))
            if len(some) == _SLICE:
                yield first, some
                first, some = first + len(some), []
    if some:
        yield first, some


def _row(one: Compared) -> Sequence[str]:
    if not one.is_recorded:
        return (one.rule, "not recorded", str(one.did_fire), "-", "-")
    counts = (one.would_fire, one.did_fire, len(one.only_new), len(one.only_old))
    return (one.rule, *map(str, counts))


def _difference(which: str, one: Firing) -> Sequence[str]:
    since = one.starts_at.isoformat(timespec="seconds")
    return (which, since, one.rule, one.workspace, one.pipeline or "-", one.summary or "-")
