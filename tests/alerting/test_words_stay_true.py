"""What an open alert says is true when it is shown or sent, however long ago it fired."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.model.alert_texts import texts_of
from monitor.model.events import AlertEvent
from monitor.model.inventory import Figures, Inventory
from monitor.model.live_state import Reachability
from monitor.model.runs import JobDetails, Status
from monitor.outputs.cloudevents import encode, message_of
from tests.alerting.engine_stage import Stage, on_stage
from tests.alerting.run_samples import at, state

MINUTE, HOUR = 60.0, 3_600.0
World = Callable[[Stage, float], Awaitable[Any]]


class Case(NamedTuple):
    """A rule, what happens as of a second, and what its alert says then.

    ``fires`` and ``later`` are seconds; the texts are the summary and the description in one line.
    """

    rule: RuleKind
    threshold: float
    world: World
    fires: float
    shown: str
    later: float
    shown_later: str
    sent_later: str


async def _token(stage: Stage, seconds: float) -> None:
    tokens = Figures(values={"7": at(20 * MINUTE).timestamp()}, until=at(seconds + HOUR))
    stage.live_state.update_workspace(
        "acme", reachability=Reachability.REACHABLE, inventory=Inventory(tokens=tokens)
    )
    await stage.look_again()


async def _running(stage: Stage, seconds: float) -> None:
    await stage.evaluate(seconds, state(1, Status.RUNNING, created_at=at(0), started_at=at(0)))


async def _waiting(stage: Stage, seconds: float) -> None:
    await stage.evaluate(seconds, state(1, Status.PENDING, created_at=at(0)))


async def _silent(stage: Stage, seconds: float) -> None:
    jobs = JobDetails(percent_complete=40.0, heartbeat_at=at(0), read_at=at(seconds))
    await stage.evaluate(seconds, state(1, Status.RUNNING, created_at=at(-60), jobs=jobs))


_VALID = "Token 7 is valid until 2026-11-21T10:20:00Z, and not beyond."
CASES = (
    Case(
        rule=RuleKind.TOKEN_EXPIRING,
        threshold=12 * MINUTE,
        world=_token,
        fires=9 * MINUTE,
        shown=f"A token of acme expires in 11 min / {_VALID}",
        later=23 * MINUTE,
        shown_later=f"A token of acme expired 3 min ago / {_VALID}",
        sent_later=f"A token of acme expired at 2026-11-21T10:20:00Z / {_VALID}",
    ),
    Case(
        rule=RuleKind.RUN_OVERDUE,
        threshold=10 * MINUTE,
        world=_running,
        fires=11 * MINUTE,
        shown="orders runs for too long in acme / "
        "Run 1 has been running for 11 min, and 10 min is the limit.",
        later=2 * HOUR,
        shown_later="orders runs for too long in acme / "
        "Run 1 has been running for 2 h, and 10 min is the limit.",
        sent_later="orders runs for too long in acme / "
        "Run 1 has been running since 2026-11-21T10:00:00Z, and 10 min is the limit.",
    ),
    Case(
        rule=RuleKind.QUEUE_SLOW,
        threshold=10 * MINUTE,
        world=_waiting,
        fires=11 * MINUTE,
        shown="orders waits too long in acme / "
        "Run 1 has been waiting for its start for 11 min, and 10 min is the limit.",
        later=2 * HOUR,
        shown_later="orders waits too long in acme / "
        "Run 1 has been waiting for its start for 2 h, and 10 min is the limit.",
        sent_later="orders waits too long in acme / Run 1 has been waiting for its start "
        "since 2026-11-21T10:00:00Z, and 10 min is the limit.",
    ),
    Case(
        rule=RuleKind.RUN_STUCK,
        threshold=15 * MINUTE,
        world=_silent,
        fires=16 * MINUTE,
        shown="orders makes no progress in acme / "
        "Run 1 has shown no sign for 16 min, and 15 min is the limit.",
        later=2 * HOUR,
        shown_later="orders makes no progress in acme / "
        "Run 1 has shown no sign for 2 h, and 15 min is the limit.",
        sent_later="orders makes no progress in acme / "
        "Run 1 has shown no sign since 2026-11-21T10:00:00Z, and 15 min is the limit.",
    ),
)


async def _succeeded(stage: Stage, seconds: float) -> None:
    if seconds == 0:
        await stage.emit(state(1, Status.SUCCEEDED, finished_at=at(0)))
    await stage.evaluate(seconds)


def _words(texts: dict[str, str]) -> str:
    return f"{texts['summary']} / {texts['description']}"


def _sent(event: AlertEvent) -> str:
    document = json.loads(encode(message_of(event, position=1)))
    return _words(document["data"]["annotations"])


async def _events(stage: Stage) -> list[AlertEvent]:
    rows = await stage.bus.events(after=0, limit=1_000)
    return [row.event for row in rows if isinstance(row.event, AlertEvent)]


async def _move_to(stage: Stage, world: World, seconds: float) -> None:
    await stage.clock.advance((at(seconds) - stage.clock.now()).total_seconds())
    await world(stage, seconds)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.rule))
async def test_a_reminder_says_what_is_true_when_it_is_sent(tmp_path: Path, case: Case) -> None:
    """Fired, shown, an hour passes: the page has the new number, the reminder the instant."""
    rule = msgspec.structs.replace(
        default_rule(case.rule), threshold=case.threshold, for_seconds=0, repeat_seconds=600
    )
    async with on_stage(tmp_path, rule) as stage:
        for seconds in (0, case.fires):
            await _move_to(stage, case.world, seconds)
        (alert,) = stage.firing()
        assert _words(texts_of(alert, stage.clock.now())) == case.shown
        await _move_to(stage, case.world, case.later)
        fired, reminded = await _events(stage)
        assert (fired.type, reminded.type) == ("alert.fired", "alert.reminded")
        assert _sent(reminded) == case.sent_later
        (alert,) = stage.firing()
        assert _words(texts_of(alert, stage.clock.now())) == case.shown_later
