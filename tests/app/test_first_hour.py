"""The first minutes with a workspace that has a past, at the default budget."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

from tests.app.first_hour import watch

_MINUTES = 2.4
_MOST_MINUTES = 30.0  # the clock runs on where a busy machine keeps the daemon from reading
_EVERY = 0.4
_HISTORY = timedelta(days=2)  # more than is read of it


async def test_all_faces_agree_while_history_is_read(tmp_path: Path) -> None:
    """Status, page, gauges and alerts name the same failures; nothing unread is called well.

    The newest runs are known within a minute, whatever else is still to be read, and what fails
    does not change while older runs become known.
    """
    seen = await watch(
        tmp_path,
        history=_HISTORY,
        minutes=_MINUTES,
        most_minutes=_MOST_MINUTES,
        every_minutes=_EVERY,
        show=print,
    )

    for before, minute in itertools.pairwise(seen):
        assert minute.gauged == minute.failing, minute
        assert minute.counted == len(minute.failing), minute
        assert minute.page_says == minute.sentence, minute
        if minute.reading or not minute.reached:
            assert minute.level != "ok", minute
            assert "nothing running" not in minute.sentence, minute
            assert "no alert" not in minute.sentence, minute
        elif not before.reading and before.reached:
            assert minute.alerting == minute.failing, minute
        if before.reached is not None and minute.reached is not None:
            assert minute.reached <= before.reached, minute
    known = [minute for minute in seen if minute.at >= 1]
    assert all(
        age is not None and age < 0.5 for minute in known for age in minute.newest_hours.values()
    )
    assert known[0].failing
    assert {minute.failing for minute in known} == {known[0].failing}
    assert not seen[-1].reading
    assert "history:" in seen[-1].sentence
    most = max(minute.unexplained for minute in seen)
    assert seen[-1].unexplained < most
