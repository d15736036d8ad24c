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
from monitor.alerting.asking.backtest import Compared, Firing, compared, firings
from monitor.alerting.settings.engine import AlertingSettings
from monitor.alerting.settings.rules import RuleKind
from monitor.app.backtesting import Backtest, Noticed
from monitor.app.recorded_past import RecordedPast
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

_MOST_EVENTS = 1_000_000  # some ten minutes of judging
_PAGE = 1_000
_SLICE = 500
_LEARNING = frozenset({RuleKind.RUN_OVERDUE, RuleKind.NOT_FRESH})
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


async def _compare(settings: AlertingSettings, daemon: Path, since: datetime) -> list[Compared]:
    with tempfile.TemporaryDirectory(prefix="dataprep-monitor-") as folder:
        spool = Path(folder) / "events.jsonl"
        async with AdminClient.of(daemon) as client:
            workspaces = await _workspaces(client)
            start = await _start(client, since)
            noticed = await _fetched(client, start, spool)
        if start > since:
            _say(f"the log begins at {_written(start)}: nothing before is judged")
        _say_what_is_learned(settings)
        return await _judged(settings, workspaces, start, noticed, spool)


async def _judged(
    settings: AlertingSettings,
    workspaces: Sequence[WorkspaceStanding],
    start: datetime,
    noticed: Noticed,
    spool: Path,
) -> list[Compared]:
    would: list[Firing] = []
    did: list[Firing] = []
    test = await Backtest.opened(
        settings,
        workspaces=workspaces,
        start=start,
        past=RecordedPast(lambda event: would.extend(firings([event]))),
    )
    known, last = noticed.known_until(), start
    for first, some in _slices(spool):
        _tell_progress(f"judging {_written(some[0].event.recorded_at)}", first, len(noticed))
        await test.judge(some, known.of(first, len(some)))
        did += firings(one.event for one in some)
        last = some[-1].event.recorded_at
    # Up to then a workspace was asked, so the silence behind the newest event is known as such.
    await test.end(max([last, *(one.known_at for one in workspaces if one.known_at)]))
    _end_progress()
    return compared(settings.rules, would, did)


async def _start(client: AdminClient, since: datetime) -> datetime:
    """Return from when on events are judged: of what was before the log, nobody knows.

    Raises:
        MonitorError: there is nothing to judge.
        ConfigurationError: there is too much.
    """
    oldest = await _one_event(client, {})
    first = await _one_event(client, {"since": since.isoformat()})
    newest = await _one_event(client, {"last": "1"})
    if oldest is None or first is None or newest is None:
        raise MonitorError("the daemon has recorded no events since then; nothing is judged")
    count = newest.position - first.position + 1
    if count > _MOST_EVENTS:
        raise ConfigurationError(
            f"--since: there are {count:,} events since then, and {_MOST_EVENTS:,} can be judged "
            "at a time; begin later"
        )
    return max(since, oldest.event.recorded_at)


async def _one_event(client: AdminClient, query: dict[str, str]) -> Recorded | None:
    page = await client.get("/api/v1/events", {"limit": "1", **query})
    some = msgspec.convert(page["data"], list[Recorded])
    return some[0] if some else None


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
            known_at=msgspec.convert(one["known_at"], datetime | None),
            schedules=msgspec.convert(
                schedules[one["workspace"]]["schedules"], tuple[ScheduleKnown, ...]
            ),
        )
        for one in told
    ]


async def _fetched(client: AdminClient, start: datetime, spool: Path) -> Noticed:
    """Keep the events in a file, one a line; return when each was recorded and happened."""
    noticed = Noticed()
    query = {"limit": str(_PAGE), "since": start.isoformat()}
    with spool.open("wb") as file:
        while True:
            page = await client.get("/api/v1/events", query)
            some = msgspec.convert(page["data"], list[Recorded])
            for one in some:
                file.write(_ENCODER.encode(one) + b"\n")
                noticed.add(*_times(one))
            _tell_progress(f"reading: {len(noticed):,} events")
            # What is recorded meanwhile is read too, but there is an end to it.
            if len(some) < _PAGE or len(noticed) > _MOST_EVENTS:
                _end_progress()
                return noticed
            query = {"limit": str(_PAGE), "after": str(page["next"])}


def _say_what_is_learned(settings: AlertingSettings) -> None:
    learning = [
        one.name
        for one in settings.rules
        if one.is_enabled and one.rule in _LEARNING and one.threshold is None
    ]
    if learning:
        _say(
            f"{', '.join(learning)}: limits are learned anew from the first of these events, "
            "so a pipeline's first runs are not judged by them"
        )


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _tell_progress(what: str, done: int = 0, of: int = 0) -> None:
    if sys.stderr.isatty():
        share = f" ({100 * done // of} %)" if of else ""
        sys.stderr.write(f"\r\x1b[K{what}{share}")
        sys.stderr.flush()


def _end_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def _written(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


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
