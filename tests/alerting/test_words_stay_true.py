"""What an open alert says is true when it is shown or sent, however long ago it fired."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from monitor.alerting.rules.contract import FlowOrPlanFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS, default_rule
from monitor.model.alert_texts import Rendering, fill, texts_of
from monitor.model.events import AlertEvent
from monitor.model.inventory import Figures, Inventory
from monitor.model.live_state import (
    PipelineHealth,
    Reachability,
    TokenStatus,
    TokenTrouble,
    TokenTroubleKind,
)
from monitor.model.runs import JobDetails, RunKind, Status
from monitor.outputs.cloudevents import encode, message_of
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.rule_evaluation import EvaluatedRule
from tests.alerting.run_samples import FLOW, at, state

MINUTE, HOUR = 60.0, 3_600.0
World = Callable[[Fixture, float], Awaitable[Any]]


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


async def _token(fixture: Fixture, seconds: float) -> None:
    tokens = Figures(values={"7": at(20 * MINUTE).timestamp()}, until=at(seconds + HOUR))
    fixture.live_state.update_workspace(
        "acme", reachability=Reachability.REACHABLE, inventory=Inventory(tokens=tokens)
    )
    await fixture.look_again()


async def _running(fixture: Fixture, seconds: float) -> None:
    await fixture.evaluate(seconds, state(1, Status.RUNNING, created_at=at(0), started_at=at(0)))


async def _waiting(fixture: Fixture, seconds: float) -> None:
    await fixture.evaluate(seconds, state(1, Status.PENDING, created_at=at(0)))


async def _silent(fixture: Fixture, seconds: float) -> None:
    jobs = JobDetails(percent_complete=40.0, heartbeat_at=at(0), read_at=at(seconds))
    await fixture.evaluate(seconds, state(1, Status.RUNNING, created_at=at(-60), jobs=jobs))


_VALID = (
    "Token 7: it is valid until 2026-11-21T10:20:00Z, and is not renewed automatically. "
    "To do: make a new one and put it where the monitor reads it, or delete this one."
)
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


def _words(texts: dict[str, str]) -> str:
    return f"{texts['summary']} / {texts['description']}"


def _sent(event: AlertEvent) -> str:
    document = json.loads(encode(message_of(event, position=1)))
    return _words(document["data"]["annotations"])


async def _events(fixture: Fixture) -> list[AlertEvent]:
    rows = await fixture.bus.events(after=0, limit=1_000)
    return [row.event for row in rows if isinstance(row.event, AlertEvent)]


async def _move_to(fixture: Fixture, world: World, seconds: float) -> None:
    await fixture.clock.advance((at(seconds) - fixture.clock.now()).total_seconds())
    await world(fixture, seconds)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.rule))
async def test_a_reminder_says_what_is_true_when_it_is_sent(tmp_path: Path, case: Case) -> None:
    """Fired, shown, an hour passes: the page has the new number, the reminder the instant."""
    rule = msgspec.structs.replace(
        default_rule(case.rule), threshold=case.threshold, for_seconds=0, repeat_seconds=600
    )
    async with engine_fixture(tmp_path, rule) as fixture:
        for seconds in (0, case.fires):
            await _move_to(fixture, case.world, seconds)
        (alert,) = fixture.firing()
        assert _words(texts_of(alert, fixture.clock.now())) == case.shown
        await _move_to(fixture, case.world, case.later)
        fired, reminded = await _events(fixture)
        assert (fired.type, reminded.type) == ("alert.fired", "alert.reminded")
        assert _sent(reminded) == case.sent_later
        (alert,) = fixture.firing()
        assert _words(texts_of(alert, fixture.clock.now())) == case.shown_later
        assert _sent(reminded) == case.sent_later  # the same event is the same message


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: str(case.rule))
async def test_an_ended_alert_keeps_the_age_that_it_had(tmp_path: Path, case: Case) -> None:
    """Resolved texts are in the past tense, and their number grows no more."""
    rule = msgspec.structs.replace(
        default_rule(case.rule), threshold=case.threshold, for_seconds=0, repeat_seconds=0
    )
    async with engine_fixture(tmp_path, rule) as fixture:
        for seconds in (0, case.fires):
            await _move_to(fixture, case.world, seconds)
        await fixture.clock.advance(60)
        ended_at = fixture.clock.now()
        await fixture.emit(state(1, Status.SUCCEEDED, created_at=at(0), finished_at=ended_at))
        (alert,) = fixture.engine.snapshot().alerts
        *_, resolved = await _events(fixture)
        lasted = f"for {round((ended_at - at(0)).total_seconds() / 60)} min"
        texts = {
            _words(texts_of(alert, ended_at)),
            _words(texts_of(alert, ended_at + timedelta(hours=5))),
            _sent(resolved),
        }
        assert len(texts) == 1
        (text,) = texts
        assert lasted in text
        assert not re.search(r"\b(has|have|runs|waits|makes|is)\b", text)


async def test_facts_of_an_open_alert_follow_the_present(tmp_path: Path) -> None:
    """Another reason of an outage, and more callbacks that stayed away, without a new event."""
    rules = [
        msgspec.structs.replace(default_rule(kind), for_seconds=0)
        for kind in (RuleKind.WORKSPACE_UNREACHABLE, RuleKind.CALLBACKS_MISSED)
    ]
    async with engine_fixture(tmp_path, *rules) as fixture:

        async def descriptions(seconds: float, **status: Any) -> list[str]:
            await fixture.clock.advance((at(seconds) - fixture.clock.now()).total_seconds())
            fixture.live_state.update_workspace("acme", **status)
            await fixture.look_again()
            return [texts_of(alert, at(seconds))["description"] for alert in fixture.firing()]

        down = {"reachability": Reachability.UNREACHABLE}
        missed = (
            "callbacks did not come from 2026-11-21T10:10:00Z on; polls found those runs later."
        )
        await descriptions(0, reachability=Reachability.REACHABLE)
        assert await descriptions(600, callbacks_missed=3) == [f"3 {missed}"]
        assert await descriptions(900, callbacks_missed=9) == [f"9 {missed}"]
        first = await descriptions(910, reason="changes: no answer", **down)
        second = await descriptions(920, reason="changes: 503", **down)
        assert "changes: no answer" in first
        assert ("changes: no answer" in second, "changes: 503" in second) == (False, True)
        # What did not change is not stored again.
        (before,) = [alert for alert in fixture.firing() if alert.rule == "workspace_unreachable"]
        await descriptions(930, reason="changes: 503", **down)
        assert any(alert is before for alert in fixture.firing())


PAIR_RULE = msgspec.structs.replace(
    default_rule(RuleKind.TOKEN_EXPIRING), threshold=12 * MINUTE, for_seconds=0
)
REFUSED = TokenTrouble(
    kind=TokenTroubleKind.NEW_TOKEN_REFUSED,
    since=at(0),
    reason="the new refresh token is refused; the pair before it stays in use",
    advice="generate a new pair",
)
LOST = TokenTrouble(
    kind=TokenTroubleKind.LOCKED_OUT, since=at(0), reason="locked out", advice="generate a new pair"
)


async def _pair_words(
    fixture: Fixture, seconds: float, token: TokenStatus, **status: Any
) -> list[str]:
    """Return what the alerts about a pair say at that second, as page and commands show them."""
    await fixture.clock.advance((at(seconds) - fixture.clock.now()).total_seconds())
    fixture.live_state.update_workspace(
        "acme", reachability=Reachability.REACHABLE, token=token, **status
    )
    await fixture.look_again()
    view, now = fixture.live_state.view, fixture.clock.now()
    return [_words(texts_of(alert, view.time_of(alert, now))) for alert in fixture.firing()]


async def test_a_new_token_that_is_refused_has_no_end_of_another(tmp_path: Path) -> None:
    """The access token in use goes on being refreshed, so its end is not reported."""
    async with engine_fixture(tmp_path, PAIR_RULE) as fixture:
        for seconds in (60, 600):
            token = TokenStatus(expires_at=at(5 * MINUTE), trouble=REFUSED)
            (words,) = await _pair_words(fixture, seconds, token)
            assert words == (
                "A token of acme is in danger / Token refresh_token/new_token_refused: the new "
                "refresh token is refused; the pair before it stays in use. "
                "To do: generate a new pair."
            )


async def test_an_end_without_a_reason_is_not_over(tmp_path: Path) -> None:
    """A pair whose access token has no known end is in danger, and not said to have expired."""
    async with engine_fixture(tmp_path, PAIR_RULE) as fixture:
        (words,) = await _pair_words(fixture, 60, TokenStatus(trouble=LOST))
        assert words == (
            "A token of acme is in danger / Token refresh_token/locked_out: locked out. "
            "To do: generate a new pair."
        )
        (words,) = await _pair_words(fixture, 90, TokenStatus(expires_at=at(300), trouble=LOST))
        assert "in use is valid until 2026-11-21T10:05:00Z. To do" in words


@pytest.mark.parametrize("skew_seconds", [-4 * HOUR, 0.0, 4 * HOUR])
async def test_the_end_of_a_pair_is_by_our_clock(tmp_path: Path, skew_seconds: float) -> None:
    """However wrong the workspace's clock is, what we refresh ends by ours."""
    token = TokenStatus(pair_expires_at=at(20 * MINUTE))
    async with engine_fixture(tmp_path, PAIR_RULE) as fixture:
        skew = {"clock_skew_seconds": skew_seconds}
        assert await _pair_words(fixture, 60, token, **skew) == []
        (words,) = await _pair_words(fixture, 9 * MINUTE, token, **skew)
        assert words.startswith("A token of acme expires in 11 min / Token refresh_token: ")
        (words,) = await _pair_words(fixture, 23 * MINUTE, token, **skew)
        assert words.startswith("A token of acme expired 3 min ago / ")


async def test_an_outage_lasts_by_our_clock(tmp_path: Path) -> None:
    """Since when a workspace is unreachable is ours, so its clock does not make that longer."""
    rule = msgspec.structs.replace(default_rule(RuleKind.WORKSPACE_UNREACHABLE), for_seconds=0)
    rule = msgspec.structs.replace(rule, annotations={"summary": "down {starts_at:since}"})
    async with engine_fixture(tmp_path, rule) as fixture:
        fixture.live_state.update_workspace(
            "acme",
            reachability=Reachability.UNREACHABLE,
            since=at(0),
            reason="no answer",
            clock_skew_seconds=4 * HOUR,
        )
        began = fixture.clock.now()
        await fixture.look_again()
        await fixture.clock.advance(20 * MINUTE)
        (alert,) = await fixture.look_again()
        assert alert.starts_at <= began
        now = fixture.live_state.view.time_of(alert, fixture.clock.now())
        assert texts_of(alert, now)["summary"] == "down for 20 min"


@pytest.mark.parametrize("kind", RuleKind)
def test_no_rule_keeps_an_age(kind: RuleKind) -> None:
    """Facts that templates may name are instants and limits; an age is made when it is read."""
    fields = RULE_DEFINITIONS[kind].template_fields
    assert {name for name in fields if name.endswith("seconds")} <= {"limit_seconds"}
    assert not {"remaining", "backlog", "left", "age", "ago"} & set(fields)


def test_a_pipeline_without_fresh_result_says_since_when() -> None:
    """Also where it has never succeeded: since it is known."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=HOUR)
    ran = PipelineHealth(workspace="marketing", run_kind=RunKind.FLOW_RUN, pipeline=FLOW)
    for seconds in (0, HOUR, 5 * HOUR):
        rule.evaluate(FlowOrPlanFacts(pipeline_health=(ran,)), seconds)
    template = RULE_DEFINITIONS[RuleKind.NOT_FRESH].description
    now, kept, over = (
        fill(template, rule.firing.facts, rendering)
        for rendering in (
            Rendering(at=at(30 * HOUR)),
            Rendering(at=at(30 * HOUR), is_kept=True),
            Rendering(at=at(90 * HOUR), ended_at=at(31 * HOUR)),
        )
    )
    assert now == "No success for 1 d 6 h; 1 h is the limit."
    assert kept == "No success since 2026-11-21T10:00:00Z; 1 h is the limit."
    assert over == "No success for 1 d 7 h; 1 h was the limit."
