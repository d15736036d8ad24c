"""One alert in its life cycle, on a clock that a test moves, and its transitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from monitor.alerting.alerts.acknowledging import acknowledged
from monitor.alerting.alerts.instance import (
    AlertInstance,
    FingerprintHistory,
    FingerprintState,
    LifecycleOutcome,
    StepWord,
)
from monitor.alerting.alerts.lifecycle import (
    EvaluationTime,
    LifecycleLimits,
    end,
    firing,
    not_firing,
    over_when_seen,
    pass_time,
)
from monitor.alerting.rules.contract import Firing, Ok, OverWhenSeen, Unknown
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Acknowledgement, Alert, AlertState, Severity, alert_event_id

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PACE = LifecycleLimits(flap_count=3, flap_seconds=3_600, resolved_kept_seconds=3_600)
SILENCED = ("silence:1",)


class Published(NamedTuple):
    """One transition that subscribers got."""

    word: StepWord
    alert: Alert
    number: int


class Told:
    """Everything that was published, and whether it makes sense to a subscriber."""

    def __init__(self) -> None:
        self.tellings: list[Published] = []

    @property
    def words(self) -> list[str]:
        return [telling.word for telling in self.tellings]

    @property
    def ids(self) -> list[str]:
        return [
            alert_event_id("f", telling.alert.starts_at, telling.word, telling.number)
            for telling in self.tellings
        ]

    def open_start(self) -> datetime | None:
        """Return the start of the published alert that has not ended; fail on nonsense."""
        begun: datetime | None = None
        for telling in self.tellings:
            if telling.word in ("fired", "flapping"):
                assert begun is None, f"{telling.word} while another episode goes on"
                begun = telling.alert.starts_at
            elif telling.word == "resolved":
                assert begun == telling.alert.starts_at, "resolved what was not told"
                begun = None
            elif telling.word == "reminded":
                assert begun == telling.alert.starts_at, "reminded of what was not told"
            elif telling.word == "acknowledged":
                assert begun in (None, telling.alert.starts_at), "acknowledged what had ended"
        return begun


class History:
    """One fingerprint from one result to the next."""

    def __init__(self, *, for_seconds: float = 0.0, repeat_seconds: float = 0.0) -> None:
        self.rule = RuleSettings(
            name="rule",
            rule=RuleKind.RUN_FAILED,
            for_seconds=for_seconds,
            repeat_seconds=repeat_seconds,
        )
        self.held: FingerprintState = FingerprintHistory()
        self.told = Told()
        self.now = NOON
        self.muted_by: tuple[str, ...] = ()
        self.wrong_since: datetime | None = None
        self.number = 0

    @property
    def state(self) -> AlertState | None:
        return self.held.alert.state if isinstance(self.held, AlertInstance) else None

    def wrong(self, *, after: float = 0.0, since: datetime | None = None) -> str:
        """Let the condition hold; return the step's word."""
        self.now += timedelta(seconds=after)
        self.wrong_since = since or self.wrong_since or self.now
        self.number += 1
        evidence = (f"event-{self.number}",)
        wrong = Firing(since=self.wrong_since, as_of=self.now, evidence=evidence)
        return self._judge(wrong, is_event=True)

    def looks_wrong(self, *evidence: str) -> str:
        """Evaluate it two seconds later, with all of these as evidence."""
        self.now += timedelta(seconds=2)
        self.wrong_since = self.wrong_since or self.now
        return self._judge(Firing(since=self.wrong_since, as_of=self.now, evidence=evidence))

    def right(self, *, after: float = 0.0) -> str:
        self.now += timedelta(seconds=after)
        self.wrong_since = None
        return self._judge(Ok(at=self.now))

    def unclear(self, *, after: float = 0.0) -> str:
        self.now += timedelta(seconds=after)
        return self._judge(Unknown(why="an outage"))

    def passes(self, seconds: float, *, as_of: datetime | None = None) -> str:
        """Let time pass and one cycle come; ``as_of`` None: all is known until now."""
        self.now += timedelta(seconds=seconds)
        if not isinstance(self.held, AlertInstance):
            return ""
        moment = self._moment(as_of=as_of or self.now)
        return self._took(pass_time(self.held, self.rule, moment))

    def acknowledge(self, *, lasts: float | None = None, author: str = "anna") -> str:
        """Let an operator acknowledge the alert, where one is open; ``lasts`` None: to its end."""
        if not isinstance(self.held, AlertInstance) or not self.held.is_open:
            return ""
        until = None if lasts is None else self.now + timedelta(seconds=lasts)
        by = Acknowledgement(author=author, comment="", at=self.now, until=until)
        return self._took(acknowledged(self.held, by, now=self.now, occurred_at=self.now))

    def rule_goes(self) -> str:
        assert isinstance(self.held, AlertInstance)
        return self._took(end(self.held, self.now, now=self.now, reason="rule removed"))

    def late(self, *, since: datetime, lasted: float) -> list[str]:
        """Let a failure be seen that was over; return the words of what becomes of it."""
        self.number += 1
        late = OverWhenSeen(
            since=since,
            until=since + timedelta(seconds=lasted),
            evidence=(f"event-{self.number}",),
        )
        fresh = alert(late.since, evidence=late.evidence)
        moment = self._moment(as_of=self.now, is_event=True)
        return [
            self._took(outcome)
            for outcome in over_when_seen(self.held, late, fresh, self.rule, moment)
        ]

    def _judge(self, result: Firing | Ok | Unknown, *, is_event: bool = False) -> str:
        if not isinstance(result, Firing):
            return self._took(not_firing(self.held, result, now=self.now))
        fresh = alert(result.since, evidence=result.evidence)
        moment = self._moment(as_of=self.now, is_event=is_event)
        return self._took(firing(self.held, result, fresh, self.rule, moment))

    def _moment(self, *, as_of: datetime | None, is_event: bool = False) -> EvaluationTime:
        return EvaluationTime(
            now=self.now, as_of=as_of, muted_by=self.muted_by, is_event=is_event, limits=PACE
        )

    def _took(self, outcome: LifecycleOutcome) -> StepWord:
        self.held = outcome.state
        if outcome.is_published:
            assert isinstance(outcome.state, AlertInstance)
            published = Published(outcome.step, outcome.state.alert, outcome.number)
            self.told.tellings.append(published)
        return outcome.step


def alert(starts_at: datetime, *, evidence: tuple[str, ...] = ()) -> Alert:
    return Alert(
        fingerprint="f",
        name="rule",
        rule="run_failed",
        severity=Severity.CRITICAL,
        state=AlertState.PENDING,
        labels={"alertname": "rule"},
        templates={},
        starts_at=starts_at,
        workspace="w",
        evidence=evidence,
        evidence_count=len(evidence),
    )
