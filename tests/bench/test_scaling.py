"""The arithmetic of ``deploy/SCALING.md``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.scaling import COSTS, UTILISATION, Load, need, placed, simulate_day, table

DOCUMENT = Path(__file__).parents[2] / "deploy" / "SCALING.md"
SMALL = Load(workspaces=200, runs_a_day=20_000)


def test_the_document_has_the_table_of_the_script() -> None:
    """A change of a cost, a load or the simulation needs a new table."""
    text = DOCUMENT.read_text()
    begin, end = (
        "<!-- the table of python -m tests.bench.scaling -->\n",
        "<!-- end of the table -->",
    )
    assert text.partition(begin)[2].partition(end)[0] == table()


def test_every_run_starts_once() -> None:
    """A day has as many starts as runs, each in one of its minutes."""
    day = simulate_day(SMALL)
    assert sum(day.runs_of) == sum(day.starts.values()) == SMALL.runs_a_day
    assert all(0 <= minute < 24 * 60 for minute, _ in day.starts)


@pytest.mark.parametrize("runs", [1_000, 20_000, 200_000])
def test_one_daemon_less_still_carries_the_load(runs: int) -> None:
    """The fullest daemon stays below what a core is planned for when one of them is gone."""
    needed = need(Load(workspaces=200, runs_a_day=runs))
    assert needed.fullest_core <= UTILISATION
    assert needed.daemons >= 2
    assert needed.takeover_seconds < COSTS.lease_seconds * 1.25 + 200 * COSTS.shard_start_seconds


def test_shards_lie_evenly_enough() -> None:
    """Rendezvous hashing gives no daemon twice the average of two hundred shards."""
    holders = placed(SMALL, 4)
    assert len(holders) == SMALL.workspaces
    assert max(holders.count(daemon) for daemon in range(4)) < 2 * SMALL.workspaces / 4
