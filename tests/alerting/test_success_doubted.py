"""success_doubted: a success that may hide a failure fires, and the next one without doubt ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from monitor.alerting.rules.contract import EventInput, Firing, Ok
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.success_doubted import DEFINITION, REASONS, DoubtedParts
from monitor.alerting.rules.table import default_rule
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import FailedPart, Implausible, RunState, Status
from tests.alerting.run_samples import at, key, run_event, state

_RULE = default_rule(RuleKind.SUCCESS_DOUBTED)


def doubtful(number: int, reason: str = "complete_with_failed_jobs", **other: Any) -> RunState:
    run = state(number, Status.SUCCEEDED, finished_at=at(60 * number), **other)
    return msgspec.structs.replace(run, implausible=(reason,))


def sure(number: int, **other: Any) -> RunState:
    run = state(number, Status.SUCCEEDED, finished_at=at(60 * number), **other)
    return msgspec.structs.replace(run, detailed=True)


class History:
    """The rule and what it remembers, as the store keeps it."""

    def __init__(self) -> None:
        self.memory: DoubtedParts | None = None

    def see(self, event: RunEvent) -> Any:
        assert DEFINITION.on_event is not None
        answer = DEFINITION.on_event(
            EventInput(event=event, root_run=event.run.key), self.memory, _RULE
        )
        text = None if answer.memory is None else msgspec.json.encode(answer.memory)
        self.memory = None if text is None else msgspec.json.decode(text, type=DoubtedParts)
        return answer.result


@pytest.mark.parametrize("reason", REASONS)
def test_a_success_that_may_hide_a_failure_fires_and_says_why(reason: str) -> None:
    """It names the run and the reason, from the run's own end on."""
    result = History().see(run_event(doubtful(1, reason)))
    assert isinstance(result, Firing)
    assert (result.since, result.run) == (at(60), key(1))
    assert result.evidence == ("acme:job_group:1:succeeded",)
    assert tuple(result.facts) == DEFINITION.template_fields
    assert result.facts["reason"] == REASONS[Implausible(reason)]


def test_a_mark_that_hides_nothing_does_not_fire() -> None:
    """A start after the end of a success is marked and counted, and hides no failure."""
    assert History().see(run_event(doubtful(1, "ends_before_start"))) is None


def test_job_records_may_bring_the_doubt_later() -> None:
    """They are read after the end: the success that seemed sure fires then."""
    history = History()
    assert history.see(run_event(sure(1))) is None
    result = history.see(run_event(doubtful(1), EventType.RUN_DETAILED))
    assert isinstance(result, Firing)
    assert result.evidence == ("acme:job_group:1:succeeded",)


def test_the_next_success_without_doubt_ends_it() -> None:
    """Of the same recipe, and one that ended later."""
    history = History()
    history.see(run_event(doubtful(5, recipe="a")))
    assert history.see(run_event(sure(4, recipe="a"))) is None
    assert history.see(run_event(sure(6, recipe="b"))) is None
    over = history.see(run_event(sure(7, recipe="a")))
    assert over == Ok(at=at(420), evidence=("acme:job_group:7:succeeded",))
    assert history.memory is None


def test_a_failure_changes_nothing() -> None:
    """It is another rule's."""
    history = History()
    history.see(run_event(doubtful(1)))
    assert history.see(run_event(state(2, Status.FAILED), EventType.RUN_DETAILED)) is None
    assert history.memory is not None


def test_an_old_doubt_seen_late_does_not_hide_the_newest_success() -> None:
    """Its alert begins at its own end, not at that of the newest."""
    history = History()
    history.see(run_event(doubtful(9)))
    assert history.see(run_event(doubtful(3))) is None
    assert history.memory is not None
    assert history.memory.parts[""].at == at(0) + timedelta(seconds=540)


def test_a_success_whose_job_records_are_not_read_yet_ends_nothing() -> None:
    """Each run of a broken pipeline seems sure until they are: the alert does not flap."""
    history = History()
    assert isinstance(history.see(run_event(doubtful(1), EventType.RUN_DETAILED)), Firing)
    for number in range(2, 5):
        unread = state(number, Status.SUCCEEDED, finished_at=at(60 * number))
        assert history.see(run_event(unread)) is None
        history.see(run_event(doubtful(number), EventType.RUN_DETAILED))
        assert history.memory is not None
    over = history.see(run_event(sure(5), EventType.RUN_DETAILED))
    assert over == Ok(at=at(300), evidence=("acme:job_group:5:detailed",))


def test_a_success_that_hides_a_failed_part_names_it() -> None:
    """A flow may ignore that a recipe failed; its success is doubted until one without that."""
    part = FailedPart(key=key(17), name="clean", error="no such column")
    run = msgspec.structs.replace(sure(1), failed_part=part)
    history = History()
    result = history.see(run_event(run))

    assert isinstance(result, Firing)
    assert result.facts["part"] == "clean"
    assert result.facts["reason"] == "its part clean failed: no such column"
    assert tuple(result.facts) == DEFINITION.template_fields
    assert history.see(run_event(sure(2))) == Ok(
        at=at(120), evidence=("acme:job_group:2:succeeded",)
    )


@pytest.mark.parametrize("end", [Status.FAILED, Status.CANCELED])
def test_a_success_that_the_workspace_takes_back_is_doubted_no_more(end: Status) -> None:
    """It is a failure then, about which other rules notify; that of another run changes nothing."""
    history = History()
    history.see(run_event(doubtful(1)))
    assert history.see(run_event(state(2, end, finished_at=at(120)))) is None
    over = history.see(run_event(state(1, end, finished_at=at(60))))

    assert isinstance(over, Ok)
    assert history.memory is None
