"""What the embedded store keeps when its process or its disk fails."""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.sqlite import SqliteBus
from tests.bus.examples import key, log_of
from tests.clocks import ManualClock

ROOT = Path(__file__).parent.parent.parent
LIVES = 5
NUMBERS_OF_A_LIFE = 1_000_000

WORDS = ("commit", "receive", "step", "refused")

Reported = dict[str, set[int]]


@contextmanager
def child(path: Path, first: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a child on the store; it is killed at the end if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bus.committing_child", str(path), str(first), *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def listen(process: subprocess.Popen[str], reported: Reported, *, lines: int | None = None) -> None:
    """Collect what the child reports, up to a number of lines."""
    assert process.stdout is not None
    while lines is None or lines > 0:
        line = process.stdout.readline()
        if not line.endswith("\n"):
            return
        word, _, number = line.strip().partition(" ")
        if word in WORDS:  # the store's log lines come the same way
            reported[word].add(int(number))
            lines = None if lines is None else lines - 1


async def check(bus: EventBus, reported: Reported) -> None:
    """Everything reported is stored, and no state without its event."""
    logged = {int(name) for _, name in await log_of(bus)}
    stored = {int(state.key.id) for state in await bus.recent_runs(limit=100_000)}
    waiting = {
        int(stored.run_id) for stored in (await bus.inbox("marketing", limit=100_000)).callbacks
    }
    assert reported["commit"] <= logged
    assert reported["receive"] <= waiting
    assert stored == logged
    assert [position for position, _ in await log_of(bus)] == list(range(1, len(logged) + 1))


async def test_nothing_acknowledged_is_lost_by_kill(tmp_path: Path, clock: ManualClock) -> None:
    """Killed at random times again and again, the store has all that was acknowledged."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)  # noqa: S311 - no secret
    reported: Reported = defaultdict(set)
    for life in range(LIVES):
        with child(tmp_path / "state.db", life * NUMBERS_OF_A_LIFE) as process:
            listen(process, reported, lines=chance.randrange(1, 800))
            process.kill()
            listen(process, reported)
        bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
        await check(bus, reported)
        status = await bus.status()
        for consumer in status.consumers:
            state = await bus.consumer_state(consumer.consumer)
            assert consumer.position >= max(reported["step"], default=0)
            assert int(state.get("count", b"0")) == consumer.position
        await bus.close()
    assert reported["commit"]


async def test_a_full_disk_keeps_exactly_the_acknowledged_changes(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Refused changes store nothing, acknowledged ones stay, and with room writing continues."""
    reported: Reported = defaultdict(set)
    with child(tmp_path / "state.db", 0, "full") as process:
        listen(process, reported)
        process.wait(timeout=10)
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    stored = await bus.runs([key(number) for number in range(300)])
    await check(bus, reported)
    await bus.close()

    assert process.returncode == 0
    assert reported["refused"]
    assert {int(run.id) for run in stored} == reported["commit"]
    assert 200 in reported["commit"]
