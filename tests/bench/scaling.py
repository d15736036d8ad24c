"""What workspaces and runs a day need: measured costs, a simulated day, and the death of a daemon.

``python -m tests.bench.scaling --workspaces 10000 --runs 1000000`` prints the table; without
arguments those of ``deploy/SCALING.md``. A day is simulated minute by minute: runs start where
schedules put them, workspaces are of very different sizes, and shards lie where rendezvous hashing
puts them, so that the fullest daemon in the fullest minute is what counts.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.bus.postgres.leases.rendezvous import best_daemon

MINUTES = 24 * 60
DAY_SECONDS = 86_400
# What a core is planned for: the rest is for scrapes, the page, and what was not thought of.
UTILISATION = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured on one machine; `deploy/SCALING.md` says by which commands, and on what."""

    # Of a daemon, in seconds of one core.
    transition_seconds: float
    idle_workspace_seconds: float  # a second, for polls that find nothing
    # Of a daemon, in bytes.
    daemon_bytes: float
    shard_bytes: float
    active_run_bytes: float
    # Of one database.
    rows_per_second: float  # of all daemons together, in commits of a hundred
    event_bytes: float  # with its indexes
    run_bytes: float  # with its indexes
    # Of a takeover, in seconds.
    lease_seconds: float
    shard_start_seconds: float  # of one core, for each shard that is taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Who is watched, and what happens there."""

    workspaces: int
    runs_a_day: int
    transitions_of_a_run: int = 3
    minutes_of_a_run: float = 6.0
    retention_days: int = 30
    # Runs that schedules start, most of them at a full hour or a quarter.
    scheduled_share: float = 0.8


COSTS = Costs(
    transition_seconds=0.0012,
    idle_workspace_seconds=0.0007,
    daemon_bytes=75e6,
    shard_bytes=700e3,
    active_run_bytes=1_500,
    rows_per_second=14_000,
    event_bytes=1_500,
    run_bytes=2_000,
    lease_seconds=9,
    shard_start_seconds=0.03,
)
LOADS = (
    Load(workspaces=10, runs_a_day=5_000),
    Load(workspaces=300, runs_a_day=50_000),
    Load(workspaces=1_000, runs_a_day=200_000),
    Load(workspaces=10_000, runs_a_day=1_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a load needs, in the fullest minute of the day."""

    daemons: int  # with one to spare
    fullest_core: float  # of a daemon, with one of them gone
    fullest_memory_bytes: float
    shards_of_fullest: int
    transitions_per_second: float  # all daemons together
    database_share: float  # of what one database carries
    databases: int
    stored_bytes: float
    takeover_seconds: float  # until the last shard of a killed daemon runs again


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A simulated day: how many runs each workspace starts, and in which minute."""

    runs_of: list[int]
    starts: Counter[tuple[int, int]]  # by minute and workspace

    def fullest_minute(self) -> int:
        by_minute: Counter[int] = Counter()
        for (minute, _), runs in self.starts.items():
            by_minute[minute] += runs
        return max(by_minute, key=lambda minute: (by_minute[minute], -minute))


def simulate_day(load: Load, *, seed: int = 0) -> Day:
    """Return a day whose workspaces have sizes by a power law, and schedules people would write."""
    chance = random.Random(seed)  # noqa: S311 - a reproducible day
    weights = [1.0 / (rank + 10) ** 0.8 for rank in range(load.workspaces)]
    owners = chance.choices(range(load.workspaces), weights, k=load.runs_a_day)
    runs_of = [0] * load.workspaces
    starts: Counter[tuple[int, int]] = Counter()
    for owner in owners:
        runs_of[owner] += 1
        starts[_minute(chance, load), owner] += 1
    return Day(runs_of=runs_of, starts=starts)


def _minute(chance: random.Random, load: Load) -> int:
    if chance.random() >= load.scheduled_share:
        return chance.randrange(MINUTES)
    # A third of all schedules runs in the night; most people write 0, some 15, 30 or 45.
    hour = chance.choice((1, 2, 3, 4, 5, 6)) if chance.random() < 1 / 3 else chance.randrange(24)
    return hour * 60 + chance.choices((0, 15, 30, 45, chance.randrange(60)), (10, 3, 5, 3, 4))[0]


def placed(load: Load, daemons: int) -> list[int]:
    """Return for each workspace the daemon that holds its shard."""
    names = [f"monitor-{number}" for number in range(daemons)]
    numbers = {name: number for number, name in enumerate(names)}
    return [
        numbers[best_daemon(f"workspace-{number}", names) or names[0]]
        for number in range(load.workspaces)
    ]


def need(load: Load, costs: Costs = COSTS, *, seed: int = 0) -> Need:
    """Return the fewest daemons that carry the load when one of them is gone, and what they do."""
    day = simulate_day(load, seed=seed)
    daemons = 1
    while (core := _fullest_core(load, day, costs, daemons)) > UTILISATION:
        # At least as many more as the present excess says: few steps for large loads.
        daemons = max(daemons + 1, math.ceil(daemons * core / UTILISATION * 0.95))
    holders = Counter(placed(load, daemons))
    fullest_shards = max(holders.values())
    rate = _transition_rates(load, day)[day.fullest_minute()]
    share = rate * 2 / costs.rows_per_second  # a row of the run and a row of the event
    active = rate / load.transitions_of_a_run * 60 * load.minutes_of_a_run
    return Need(
        daemons=daemons + 1,
        fullest_core=core,
        fullest_memory_bytes=costs.daemon_bytes
        + fullest_shards * costs.shard_bytes
        + active * costs.active_run_bytes,
        shards_of_fullest=fullest_shards,
        transitions_per_second=rate,
        database_share=share,
        databases=max(1, math.ceil(share / UTILISATION)),
        stored_bytes=load.runs_a_day
        * load.retention_days
        * (load.transitions_of_a_run * costs.event_bytes + costs.run_bytes),
        takeover_seconds=_takeover_seconds(load, costs, daemons + 1),
    )


def _transition_rates(load: Load, day: Day) -> list[float]:
    """Return the transitions a second of each minute, of all workspaces."""
    rates = [0.0] * MINUTES
    for (minute, _), runs in day.starts.items():
        for later, transitions in _spread(load):
            rates[(minute + later) % MINUTES] += runs * transitions / 60
    return rates


def _spread(load: Load) -> tuple[tuple[int, int], ...]:
    """Return how many transitions of a run fall into which minute after its start."""
    return (0, load.transitions_of_a_run - 1), (round(load.minutes_of_a_run), 1)


def _fullest_core(load: Load, day: Day, costs: Costs, daemons: int) -> float:
    """Return the share of a core that the fullest daemon uses in its fullest minute."""
    holder = placed(load, daemons)
    idle = [count * costs.idle_workspace_seconds for count in Counter(holder).values()]
    busy: Counter[tuple[int, int]] = Counter()
    for (minute, workspace), runs in day.starts.items():
        for later, transitions in _spread(load):
            busy[(minute + later) % MINUTES, holder[workspace]] += runs * transitions
    fullest = max(busy.values()) / 60 * costs.transition_seconds
    return fullest + max(idle)


def _takeover_seconds(load: Load, costs: Costs, daemons: int) -> float:
    """Return when the last shard of a killed daemon runs again: the others take it over."""
    before, names = placed(load, daemons), [f"monitor-{number}" for number in range(daemons)]
    if daemons == 1:
        return math.inf
    gone = 0
    taken = Counter(
        best_daemon(f"workspace-{number}", [name for name in names if name != f"monitor-{gone}"])
        for number, holder in enumerate(before)
        if holder == gone
    )
    # The heartbeat was at most a lease old; a look at it every quarter of a lease.
    noticed = costs.lease_seconds * 1.25
    return noticed + max(taken.values(), default=0) * costs.shard_start_seconds


def table(loads: Sequence[Load] = LOADS, costs: Costs = COSTS) -> str:
    """Return the needs as Markdown."""
    head = (
        "| workspaces | runs a day | daemons (one to spare) | fullest core | its memory "
        "| its shards | transitions a second | of one database | databases | stored in 30 days "
        "| a killed daemon's last shard runs after |\n|" + "---|" * 11
    )
    return "\n".join([head, *(_row(load, need(load, costs)) for load in loads)]) + "\n"


def _row(load: Load, needed: Need) -> str:
    cells = (
        f"{load.workspaces:,}",
        f"{load.runs_a_day:,}",
        f"{needed.daemons}",
        f"{needed.fullest_core:.0%}",
        f"{needed.fullest_memory_bytes / 1e6:,.0f} MB",
        f"{needed.shards_of_fullest:,}",
        f"{needed.transitions_per_second:,.0f}",
        f"{needed.database_share:.0%}",
        f"{needed.databases}",
        f"{needed.stored_bytes / 1e9:,.1f} GB",
        f"{needed.takeover_seconds:.0f} s",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspaces", type=int)
    parser.add_argument("--runs", type=int)
    chosen = parser.parse_args(arguments)
    loads: Sequence[Load] = LOADS
    if chosen.workspaces is not None:
        runs = chosen.runs or 100 * chosen.workspaces
        loads = (Load(workspaces=chosen.workspaces, runs_a_day=runs),)
    sys.stdout.write(table(loads))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
