"""Rules about how runs end: when each begins, what is evidence, and what ends it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.canceled import DEFINITION as CANCELED
from monitor.alerting.rules.contract import AnyRuleDefinition, Firing, Ok
from monitor.alerting.rules.failing_repeatedly import DEFINITION as FAILING_REPEATEDLY
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.run_failed import DEFINITION as RUN_FAILED
from monitor.alerting.rules.run_lost import DEFINITION as RUN_LOST
from monitor.model.events import EventType
from monitor.model.runs import Parents, RunKind, Status
from tests.alerting.rule_history import History
from tests.alerting.run_samples import at, key, rule, run_event, state

OK, BAD, OFF, GONE = Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST


def test_a_failure_begins_and_a_success_ends() -> None:
    """The first failure begins the alert with the job's message, the next success ends it."""
    history = History(RUN_FAILED)
    firing = history.end(1, BAD)
    ok = history.end(2, OK)

    assert isinstance(firing, Firing)
    assert firing.since == firing.as_of == at(60)
    assert firing.evidence == ("acme:job_group:1:failed",)
    assert firing.run == key(1)
    assert firing.facts == {"error": "error 1", "part": None, "run": "1", "failing": 1}
    assert ok == Ok(at=at(120), evidence=("acme:job_group:2:succeeded",))
    assert [end.run_id for end in history.memory.parts[""]] == ["1", "2"]


def test_a_second_failure_is_evidence() -> None:
    """It is so since the first, whatever fails after it."""
    history = History(RUN_FAILED)
    history.end(1, BAD)
    firing = history.end(2, BAD)

    assert isinstance(firing, Firing)
    assert firing.evidence == ("acme:job_group:2:failed",)
    assert history.changes == ["firing at acme:job_group:1:failed"]


def test_every_recipe_has_to_succeed_again() -> None:
    """Two recipes of a flow fail: the success of one does not end what the other began."""
    history = History(RUN_FAILED)
    history.end(1, BAD, recipe="a")
    history.end(2, BAD, recipe="b")
    assert history.end(3, OK, recipe="a") is None
    assert isinstance(history.end(4, OK, recipe="b"), Ok)


def test_a_failure_without_recipe_is_ended_by_any() -> None:
    """A failure without recipe may have been of any, and must not stay forever."""
    history = History(RUN_FAILED)
    history.end(1, BAD)
    assert isinstance(history.end(2, OK, recipe="a"), Ok)


def test_a_success_that_is_older_ends_nothing() -> None:
    """Two runs side by side: the one that failed last decides, whatever the order of reports."""
    history = History(RUN_FAILED)
    history.end(2, BAD)
    assert history.end(1, OK) is None
    assert isinstance(history.end(3, OK), Ok)


def test_a_failure_inside_a_run_is_of_that_run() -> None:
    """A job group of a flow run begins the flow run's alert; its success ends nothing."""
    history, outer = History(RUN_FAILED), key(9, RunKind.FLOW_RUN)
    inner = Parents(flow_run="9")
    failed = run_event(state(1, BAD, parents=inner, recipe="a", error="broken"))
    succeeded = run_event(state(2, OK, parents=inner, recipe="a", finished_at=at(60)))
    outer_failed = run_event(state(9, BAD, kind=RunKind.FLOW_RUN, finished_at=at(90)))
    outer_succeeded = run_event(state(10, OK, kind=RunKind.FLOW_RUN, finished_at=at(200)))

    assert isinstance(firing := history.on_event(failed, root_run=outer), Firing)
    assert firing.run == outer
    assert history.on_event(succeeded, root_run=outer) is None
    assert isinstance(history.on_event(outer_failed), Firing)
    assert isinstance(history.on_event(outer_succeeded), Ok)
    assert len(history.changes) == 2


def test_a_success_without_failure_before_it_is_ok() -> None:
    """Of a pipeline that succeeds only its newest successes are kept, to compare failures with."""
    history = History(RUN_FAILED)
    history.end(1, OK)
    assert history.end(2, OK) == Ok(at=at(120), evidence=("acme:job_group:2:succeeded",))
    assert len(msgspec.json.encode(history.memory)) < 400


@given(st.lists(st.sampled_from((OK, BAD, OFF)), max_size=30))
def test_run_failed_is_the_newest_success_or_failure(statuses: list[Status]) -> None:
    """After any runs one after the other, it fires exactly where the newest one failed."""
    history = History(RUN_FAILED)
    history.ends(statuses)
    reported = [status for status in statuses if status is not OFF]

    assert history.is_firing == bool(reported and reported[-1] is BAD)


def test_a_cancel_begins_and_any_other_end_ends() -> None:
    """Who canceled is named as far as known; a failure is no cancel, and ends it too."""
    history = History(CANCELED)
    canceled = msgspec.structs.replace(state(1, OFF), owner="ada")
    firing = history.on_event(run_event(canceled))
    assert isinstance(firing, Firing)
    assert firing.facts == {"run": "1"}
    assert isinstance(history.end(2, BAD), Ok)


def test_a_cancel_inside_a_run_does_not_fire() -> None:
    """A flow run that is canceled cancels its parts: it fires once, for the flow run."""
    history = History(CANCELED)
    inner = run_event(state(1, OFF, parents=Parents(flow_run="9")))
    assert history.on_event(inner, root_run=key(9, RunKind.FLOW_RUN)) is None
    assert not history.is_firing


def test_a_lost_run_begins_and_the_next_end_ends() -> None:
    """A cancel shows nothing of the pipeline; a success does, or a failure with its own alert."""
    history = History(RUN_LOST)
    assert history.end(1, OK) is not None
    firing = history.end(2, GONE)
    assert isinstance(firing, Firing)
    assert (firing.evidence, firing.facts) == (("acme:job_group:2:lost",), {"run": "2"})
    assert history.end(3, OFF) is None
    assert isinstance(history.end(4, OK), Ok)
    assert isinstance(history.end(5, GONE), Firing)
    assert isinstance(history.end(6, BAD), Ok)


def test_a_lost_part_is_ended_by_its_own_recipe() -> None:
    """Two recipes of a flow lose a run: the success of one does not end what the other began."""
    history = History(RUN_LOST)
    history.end(1, GONE, recipe="a")
    history.end(2, GONE, recipe="b")
    assert history.end(3, OK, recipe="a") is None
    assert isinstance(history.end(4, OK, recipe="b"), Ok)


def test_a_run_lost_inside_another_does_not_fire() -> None:
    """The flow run around it ends by itself, or is lost too: it fires once, for the flow run."""
    history = History(RUN_LOST)
    inner = run_event(state(1, GONE, parents=Parents(flow_run="9")))
    assert history.on_event(inner, root_run=key(9, RunKind.FLOW_RUN)) is None
    assert not history.is_firing


def test_three_failures_in_a_row() -> None:
    """The third begins it, with all three as evidence; the fourth is evidence; one success ends."""
    history = History(FAILING_REPEATEDLY)
    assert [history.end(1, BAD), history.end(2, BAD)] == [None, None]
    firing = history.end(3, BAD)
    again = history.end(4, BAD)
    ok = history.end(5, OK)

    assert isinstance(firing, Firing)
    assert (firing.since, firing.as_of) == (at(180), at(180))
    assert firing.evidence == tuple(f"acme:job_group:{number}:failed" for number in (1, 2, 3))
    assert firing.facts == {
        "failures": 3,
        "ends": 3,
        "ratio": 1.0,
        "error": "error 3",
        "part": None,
        "run": "3",
    }
    assert isinstance(again, Firing)
    assert again.since == at(180)
    assert isinstance(ok, Ok)
    assert len(history.changes) == 2


def test_a_late_success_breaks_the_row() -> None:
    """Ends count by when runs ended, not by when that was reported."""
    history = History(FAILING_REPEATEDLY)
    for number in (1, 3, 5):
        history.end(number, OK if number == 1 else BAD)
    history.end(4, OK)
    assert history.end(6, BAD) is None
    assert isinstance(history.end(7, BAD), Firing)


def test_recipes_do_not_count_together() -> None:
    """One failure of each of three recipes is no row of three."""
    history = History(FAILING_REPEATEDLY)
    for number, recipe in enumerate("abcabc"):
        assert history.end(number, BAD, recipe=recipe) is None
    assert isinstance(history.end(9, BAD, recipe="b"), Firing)
    assert history.end(10, OK, recipe="a") is None
    assert isinstance(history.end(11, OK, recipe="b"), Ok)


def test_inner_failures_do_not_count() -> None:
    """Three job groups of one flow run that fail are one failure: the flow run's."""
    history, outer = History(FAILING_REPEATEDLY), key(9, RunKind.FLOW_RUN)
    for number in range(5):
        inner = run_event(state(number, BAD, parents=Parents(flow_run="9")))
        assert history.on_event(inner, root_run=outer) is None


def by_share(threshold: float) -> History:
    return History(FAILING_REPEATEDLY, rule(RuleKind.FAILING_REPEATEDLY, threshold=threshold))


def test_a_share_needs_few_ends() -> None:
    """Half of the newest ends: two of three say nothing yet, two of four do."""
    history = by_share(0.5)
    history.ends([BAD, OK, BAD])
    assert not history.is_firing
    firing = history.end(3, BAD)
    assert isinstance(firing, Firing)
    assert firing.facts["ratio"] == pytest.approx(0.75)


def test_a_share_is_over_at_half_of_it() -> None:
    """Around the threshold nothing changes to and fro."""
    history = by_share(0.5)
    history.ends([BAD, OK, BAD, OK, BAD, OK, BAD, OK, OK])
    assert history.changes == ["firing at acme:job_group:4:failed"]
    for number in range(9, 16):
        history.end(number, OK)
    assert history.changes[1:] == ["ok at acme:job_group:15:succeeded"]  # 4 of 16


def test_only_the_newest_twenty_ends_count() -> None:
    """A good year does not hide that all runs have failed lately."""
    history = by_share(0.5)
    history.ends([OK] * 200 + [BAD] * 10)
    assert history.is_firing


@given(st.lists(st.sampled_from((OK, BAD, OFF)), max_size=60), st.sampled_from((2, 3, 5)))
def test_a_row_is_what_a_count_finds(statuses: list[Status], count: int) -> None:
    """Wrong exactly where the newest ends, cancels left out, are so many failures."""
    history = History(FAILING_REPEATEDLY, rule(RuleKind.FAILING_REPEATEDLY, threshold=count))
    reported: list[Status] = []
    for number, status in enumerate(statuses):
        history.end(number, status)
        reported += [] if status is OFF else [status]
        assert history.is_firing == (len(reported) >= count and set(reported[-count:]) == {BAD})


@given(st.lists(st.sampled_from((OK, BAD)), max_size=80), st.sampled_from((0.2, 0.5, 0.8)))
def test_a_share_never_flutters(statuses: list[Status], share: float) -> None:
    """It begins only at the share, ends only at half of it, and its memory stays small."""
    history = by_share(share)
    for number, status in enumerate(statuses):
        was_wrong = history.is_firing
        history.end(number, status)
        newest = statuses[max(0, number - 19) : number + 1]
        part = newest.count(BAD) / len(newest)
        if history.is_firing and not was_wrong:
            assert part >= share
        if was_wrong and not history.is_firing:
            assert part <= share / 2
    assert len(msgspec.json.encode(history.memory)) <= 3 * 1024


@given(
    st.permutations(
        [(number, OK if number % 3 == 0 else BAD) for number in range(9)],
    )
)
def test_the_order_of_reports_does_not_matter_in_the_end(
    reported: list[tuple[int, Status]],
) -> None:
    """However late each end is reported, the result follows the times of the ends."""
    history = by_share(0.5)
    for number, status in reported:
        history.end(number, status)
    assert [end.run_id for end in history.memory.ends.parts[""]] == [
        str(number) for number in range(9)
    ]


@pytest.mark.parametrize(
    ("definition", "status"), [(RUN_FAILED, BAD), (CANCELED, OFF), (FAILING_REPEATEDLY, BAD)]
)
def test_a_firing_rule_fills_the_fields_that_its_texts_may_use(
    definition: AnyRuleDefinition, status: Status
) -> None:
    """Each field that annotations may name is reported by the rule."""
    history = History(definition)
    results = [history.end(number, status) for number in range(3)]
    assert isinstance(results[-1], Firing)
    assert tuple(results[-1].facts) == definition.template_fields


def test_the_start_of_another_run_is_passed_over() -> None:
    """The start of another run leaves everything as it is."""
    history = History(RUN_FAILED)
    history.end(1, BAD)
    before = history.memory
    assert history.on_event(run_event(state(5, Status.RUNNING), EventType.RUN_DETAILED)) is None
    assert history.memory == before


def test_a_failure_of_before_we_followed_names_no_event() -> None:
    """It made none, so the alert has no evidence; the next failure is the first of it."""
    history = History(RUN_FAILED)
    old = msgspec.structs.replace(state(1, BAD, error="gone"), historical=True)
    firing = history.on_event(run_event(old))
    assert isinstance(firing, Firing)
    assert (firing.evidence, firing.facts["error"], firing.since) == ((), "gone", at(0))
    again = history.end(2, BAD)
    assert isinstance(again, Firing)
    assert len(again.evidence) == 1

    assert isinstance(history.end(3, OK), Ok)


def test_a_ratio_survives_recipes_that_become_known_later() -> None:
    """The ends move to their recipe, and the successes of that recipe end it."""
    history = by_share(0.5)
    for number in range(1, 5):
        history.end(number, BAD)
    assert history.is_firing
    for number in range(1, 5):
        run = state(number, BAD, finished_at=at(60 * number), recipe="a")
        history.on_event(run_event(run, EventType.RUN_DETAILED))
    assert history.is_firing
    for number in range(5, 30):
        history.end(number, OK, recipe="a")
    assert not history.is_firing


def test_a_success_that_only_a_callback_reported_ends_a_cancel_once_it_is_confirmed() -> None:
    """The rule about cancels gets the confirmation as well."""
    history = History(CANCELED)
    history.end(1, OFF)
    success = state(2, OK, finished_at=at(120))
    history.on_event(run_event(msgspec.structs.replace(success, unconfirmed_end=OK)))
    assert history.is_firing
    history.on_event(run_event(success, EventType.RUN_CONFIRMED))
    assert not history.is_firing
