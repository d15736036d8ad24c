"""One hundred worlds: whatever happens in whatever order, what the daemon says is true."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.alertmanager_receiver import Notified
from tests.summary import WORLDS
from tests.worlds.generator import BATCH, world
from tests.worlds.history import history
from tests.worlds.judge import judge
from tests.worlds.play import play

_WORLDS = 100
_LONGEST_SECONDS = 900  # the worlds' clock waits for a machine that is busy with other tests
_WITH_ALERTMANAGER = (20, 50)  # first seeds of batches that have one


@pytest.mark.timeout(_LONGEST_SECONDS)
@pytest.mark.parametrize("first", range(0, _WORLDS, BATCH))
async def test_statements_about_a_world_are_true(
    first: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Events, alerts, states, metrics, page data and explanations agree with the worlds' truth."""
    worlds = [world(seed) for seed in range(first, first + BATCH)]
    async with contextlib.AsyncExitStack() as stack:
        notified = None
        if first in _WITH_ALERTMANAGER:
            notified = await stack.enter_async_context(Notified(tmp_path))
        played = await play(worlds, tmp_path, alertmanager=notified)
    figures = judge(worlds, played)
    record_property(WORLDS, figures.summary())
    failing = {finding.seed for finding in figures.findings}
    histories = [history(each, played) for each in worlds if each.seed in failing]
    found = figures.lines()
    # What is wrong stands last: a cut report keeps its end.
    assert not found, "\n".join([line for lines in histories for line in lines] + found)
