"""Any history of one alert, as a subscriber of its transitions sees it."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from monitor.alerting.alerts.instance import AlertInstance, FingerprintHistory, LifecycleOutcome
from monitor.alerting.alerts.lifecycle import EvaluationTime, next_timer_at, pass_time
from monitor.model.alerts import AlertState
from tests.alerting.lifecycle_history import PACE, SILENCED, History

_SECONDS = st.sampled_from((0.0, 1.0, 59.0, 300.0, 1_801.0, 4_000.0))
_HELD = msgspec.json.Decoder(AlertInstance)
_PAST = msgspec.json.Decoder(FingerprintHistory)


class AnyHistory(RuleBasedStateMachine):
    """Results, cycles, silences, restarts and jumps of the clock in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(for_seconds=300, repeat_seconds=1_000)

    @rule(after=_SECONDS, is_old=st.booleans())
    def it_is_wrong(self, after: float, *, is_old: bool) -> None:
        since = (
            self.history.told.tellings[0].alert.starts_at if self.history.told.tellings else None
        )
        self.history.wrong(after=after, since=since if is_old else None)

    @rule(after=_SECONDS)
    def it_is_right(self, after: float) -> None:
        self.history.right(after=after)

    @rule(after=_SECONDS)
    def it_is_unknown(self, after: float) -> None:
        self.history.unclear(after=after)

    @rule(before=_SECONDS, lasted=_SECONDS)
    def was_over_when_seen(self, before: float, lasted: float) -> None:
        since = self.history.now - timedelta(seconds=before + lasted)
        self.history.late(since=since, lasted=lasted)

    @rule(seconds=_SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.history.passes(seconds)

    @rule(muted_by=st.sampled_from(((), SILENCED, ("mute",), (*SILENCED, "inhibited:x"))))
    def holds_back(self, muted_by: tuple[str, ...]) -> None:
        self.history.muted_by = muted_by

    @rule(lasts=st.sampled_from((None, 1.0, 300.0, 4_000.0)), author=st.sampled_from("ab"))
    def is_acknowledged(self, lasts: float | None, author: str) -> None:
        self.history.acknowledge(lasts=lasts, author=author)

    @rule()
    def restarts(self) -> None:
        """What is held goes through the store."""
        text = msgspec.json.encode(self.history.held)
        decoder = _HELD if isinstance(self.history.held, AlertInstance) else _PAST
        self.history.held = decoder.decode(text)

    @invariant()
    def is_notified_in_order_and_once(self) -> None:
        ids = self.history.told.ids
        assert len(ids) == len(set(ids))
        told = self.history.told.open_start()
        held = self.history.held
        is_open = isinstance(held, AlertInstance) and held.alert.state is AlertState.FIRING
        owes = isinstance(held, AlertInstance) and held.alert.is_notified and is_open
        assert (told is not None) == owes

    @invariant()
    def what_is_acknowledged_is_not_reminded_of(self) -> None:
        told = self.history.told.tellings
        assert not any(
            telling.word == "reminded" and telling.alert.acknowledged for telling in told
        )

    @invariant()
    def nothing_becomes_of_what_sleeps(self) -> None:
        """Until it wakes time makes nothing of it, and then it does, if all is known by then."""
        held, now = self.history.held, self.history.now
        if not isinstance(held, AlertInstance):
            return
        at = next_timer_at(held, self.history.rule, PACE)
        before = now if at is None else at - timedelta(microseconds=1)
        if before >= now:
            assert pass_time(held, self.history.rule, _moment(before)) == LifecycleOutcome(
                state=held
            )
        if at is not None:
            assert pass_time(held, self.history.rule, _moment(max(now, at))).state != held

    def teardown(self) -> None:
        """In the end all is well for long, and each published start has its end."""
        self.history.muted_by = ()
        self.history.right(after=1)
        self.history.passes(1_801)
        self.history.passes(3_601)
        assert self.history.told.open_start() is None
        assert isinstance(self.history.held, FingerprintHistory)
        assert self.history.told.words.count("resolved") == sum(
            self.history.told.words.count(word) for word in ("fired", "flapping")
        )


def _moment(at: datetime) -> EvaluationTime:
    return EvaluationTime(now=at, as_of=at + timedelta(days=1), limits=PACE)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(stateful_step_count=40)
