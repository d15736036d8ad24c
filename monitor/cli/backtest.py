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
from monitor.alerting.backtest.comparison import BacktestFiring, RuleComparison, compared, firings
from monitor.alerting.backtest.recorded_store import RecordedPast
from monitor.alerting.backtest.replay import Backtest, RecordingTimes
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.cli import daemon_client
from monitor.cli.admin import AdminClient
from monitor.cli.settings_files import read_toml
from monitor.cli.tables import print_json, print_table
from monitor.config import SecretSource, parse_configuration
from monitor.model.errors import ConfigurationError, MonitorError
from monitor.model.events import RunEvent
from monitor.model.live_state import ScheduleKnown, WorkspaceStatus
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
    settings = parse_configuration(read_toml(config), os.environ, locations=_Unread()).alerting
    start = daemon_client.since(since)
    rows = asyncio.run(_compare(settings, daemon, start))
    if as_json:
        print_json(rows)
        return
    print_table(_COLUMNS, [_row(row) for row in rows])
    differences = [("new", item) for row in rows for item in row.only_new]
    differences += [("old", item) for row in rows for item in row.only_old]
    if differences:
        sys.stdout.write("\n")
        shown = sorted(differences, key=lambda difference: difference[1])[:_SHOWN]
        print_table(
            ("only", "since", "rule", "workspace", "pipeline", "summary"),
            [_difference(which, difference) for which, difference in shown],
        )
        if len(differences) > _SHOWN:
            sys.stderr.write(f"{len(differences) - _SHOWN} more differences: see --json\n")


async def _compare(
    settings: AlertingSettings, daemon: Path, since: datetime
) -> list[RuleComparison]:
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
    workspaces: Sequence[WorkspaceStatus],
    start: datetime,
    noticed: RecordingTimes,
    spool: Path,
) -> list[RuleComparison]:
    would: list[BacktestFiring] = []
    did: list[BacktestFiring] = []
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
        did += firings(recorded.event for recorded in some)
        last = some[-1].event.recorded_at
    # Up to then a workspace was asked, so the silence behind the newest event is known as such.
    await test.end(
        max([last, *(workspace.known_at for workspace in workspaces if workspace.known_at)])
    )
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


async def _workspaces(client: AdminClient) -> list[WorkspaceStatus]:
    """Return the workspaces as they stand today: the log does not hold how they stood."""
    told = (await client.get("/api/v1/workspaces"))["data"]
    schedules = {
        item["workspace"]: item for item in (await client.get("/api/v1/schedules"))["data"]
    }
    return [
        WorkspaceStatus(
            workspace=item["workspace"],
            edition=item["edition"],
            capabilities=frozenset(item["capabilities"]),
            followed_since=msgspec.convert(item["followed_since"], datetime | None),
            known_at=msgspec.convert(item["known_at"], datetime | None),
            schedules=msgspec.convert(
                schedules[item["workspace"]]["schedules"], tuple[ScheduleKnown, ...]
            ),
        )
        for item in told
    ]


async def _fetched(client: AdminClient, start: datetime, spool: Path) -> RecordingTimes:
    """Keep the events in a file, one a line; return when each was recorded and happened."""
    noticed = RecordingTimes()
    query = {"limit": str(_PAGE), "since": start.isoformat()}
    with spool.open("wb") as file:
        while True:
            page = await client.get("/api/v1/events", query)
            some = msgspec.convert(page["data"], list[Recorded])
            for item in some:
                file.write(_ENCODER.encode(item) + b"\n")
                noticed.add(*_times(item))
            _tell_progress(f"reading: {len(noticed):,} events")
            # What is recorded meanwhile is read too, but there is an end to it.
            if len(some) < _PAGE or len(noticed) > _MOST_EVENTS:
                _end_progress()
                return noticed
            query = {"limit": str(_PAGE), "after": str(page["next"])}


def _say_what_is_learned(settings: AlertingSettings) -> None:
    learning = [
        rule.name
        for rule in settings.rules
        if rule.is_enabled and rule.rule in _LEARNING and rule.threshold is None
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


def _row(compared: RuleComparison) -> Sequence[str]:
    if not compared.is_recorded:
        return (compared.rule, "not recorded", str(compared.did_fire), "-", "-")
    counts = (
        compared.would_fire,
        compared.did_fire,
        len(compared.only_new),
        len(compared.only_old),
    )
    return (compared.rule, *map(str, counts))


def _difference(which: str, firing: BacktestFiring) -> Sequence[str]:
    since = firing.starts_at.isoformat(timespec="seconds")
    return (
        which,
        since,
        firing.rule,
        firing.workspace,
        firing.pipeline or "-",
        firing.summary or "-",
    )
