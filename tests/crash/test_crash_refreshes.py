"""``kill -9`` within refreshes: no daemon is locked out unless the answer itself was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import ReportCounts
from tests.crash.refreshing_daemon import Death, RefreshScenario, refresh_scenario
from tests.crash.token_gate import Step

pytestmark = pytest.mark.timeout(600)  # lives of seconds each, on a machine that does more

_SHORT = (
    Death(step=Step.SENT, within_seconds=0.05),
    Death(step=Step.HANDLED, within_seconds=0.05),
    Death(step=Step.HANDLED, within_seconds=0.03, is_answered=True),
)


def report(crash: RefreshScenario, report_counts: ReportCounts, where: str, seed: int) -> None:
    report_counts(
        f"kills in refreshes, {where}",
        seed=seed,
        kills=crash.kills,
        refreshes=crash.refreshes,
        answers_lost=crash.lost,
        tokens_sent_again=crash.replayed,
    )


async def test_kills_within_refreshes(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Each next life reads again by itself, or says which answer is lost; a stop loses none."""
    async with refresh_scenario(tmp_path, seed=seed) as crash:
        for death in _SHORT:
            await crash.die(death)
            await crash.start()
        await crash.check()
        report(crash, report_counts, "file", seed)


async def test_kills_within_refreshes_on_a_database(
    tmp_path: Path, empty_database: str, seed: int, report_counts: ReportCounts
) -> None:
    """The same where the pair lies in PostgreSQL, with its shard."""
    async with refresh_scenario(tmp_path, seed=seed, database=empty_database) as crash:
        await crash.die(_SHORT[1])
        await crash.start()
        await crash.check()
        report(crash, report_counts, "database", seed)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kills", [200])
async def test_hours_of_kills_within_refreshes(
    tmp_path: Path, seed: int, report_counts: ReportCounts, kills: int
) -> None:
    """Hundreds of refreshes with a kill at any step of them, also while a life begins."""
    async with refresh_scenario(tmp_path, seed=seed) as crash:
        while crash.kills < kills:
            if crash.happens(0.1):
                await crash.stop_within_a_refresh()
            else:
                await crash.die(crash.any_death())
            while crash.happens(0.25):
                await crash.die_starting()
            await crash.start()
        await crash.check()
        report(crash, report_counts, "file, hours", seed)
