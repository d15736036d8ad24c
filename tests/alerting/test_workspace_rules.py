"""Rules about workspaces, their tokens, callbacks and requests, by our clock."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.contract import TokenFacts, WorkspaceFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.live_state import (
    BudgetStatus,
    DoubtedList,
    PollStatus,
    Reachability,
    RefusedCapability,
    TokenTrouble,
    TokenTroubleKind,
    WorkspaceStatus,
)
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import RunKind
from tests.alerting.rule_evaluation import EvaluatedRule, at

DAY = 86_400.0


def status(
    reachability: Reachability = Reachability.REACHABLE, *polls: PollStatus, **more: object
) -> WorkspaceFacts:
    """Return what is known of a workspace in this state."""
    known = WorkspaceStatus(workspace="marketing", reachability=reachability, **more)  # type: ignore[arg-type]  # whatever a test sets
    return WorkspaceFacts(status=known, polls=polls)


def poll(
    outcome: str, seconds: float, *, name: str = "changes", good: float | None = None
) -> PollStatus:
    """Return a poll that was last tried, and last succeeded, so long after the history began."""
    return PollStatus(
        workspace="marketing",
        poll=name,
        last_attempt_at=at(seconds),
        last_success_at=None if good is None else at(good),
        last_outcome=PollOutcome(outcome),
    )


class TestUnreachable:
    """`workspace_unreachable`."""

    def test_an_outage_fires_from_its_first_evaluation_to_the_first_answer(self) -> None:
        """Its start stays where it was first seen, also over a restart that knows nothing yet."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        down = status(Reachability.UNREACHABLE, reason="changes: no answer")
        words = [
            rule.evaluate(status(), 0),
            rule.evaluate(down, 2),
            rule.evaluate(down, 200),
            rule.evaluate(status(Reachability.UNKNOWN), 210),
            rule.evaluate(down, 220),
        ]
        assert words == ["ok", "firing", "firing", "unknown", "firing"]
        assert rule.firing.since == at(2)
        assert rule.firing.facts == {"reason": "changes: no answer", "hides_only": None}
        assert rule.evaluate(status(Reachability.DEGRADED), 230) == "ok"
        assert rule.memory_bytes == b""

    @pytest.mark.parametrize("remembered", [Reachability.REACHABLE, Reachability.UNREACHABLE])
    def test_a_remembered_state_neither_fires_nor_resolves(self, remembered: Reachability) -> None:
        """A restart repeats what was shown before, and no poll has asked the workspace since."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        assert rule.evaluate(status(remembered, is_remembered=True), 0) == "unknown"

    def test_a_list_that_only_names_hides_no_run(self) -> None:
        """Without the list of flows their runs are seen; with another reason beside it, not."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        flows = DoubtedList(name="flows", since=at(0), reason="lacks 1", unwatched=("flows",))
        runs = DoubtedList(
            name="plan runs", since=at(0), reason="lacks 2", unwatched=(RunKind.PLAN_RUN,)
        )
        failing = poll("rejected", 60)
        for facts, named in (
            (status(doubted=(flows,)), "flows"),
            (status(doubted=(flows, runs)), None),
            (status(Reachability.DEGRADED, failing, doubted=(flows,)), None),
            (status(Reachability.UNREACHABLE, doubted=(flows,)), None),
        ):
            assert rule.evaluate(facts, 60) == "firing"
            assert rule.firing.facts["hides_only"] == named

    def test_before_the_first_answer_the_result_is_unknown(self) -> None:
        """A daemon that has just started neither fires nor resolves anything."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        assert rule.evaluate(status(Reachability.UNKNOWN), 0) == "unknown"
        assert rule.evaluate(status(Reachability.UNREACHABLE), None) == "unknown"

    def test_a_workspace_that_never_answered_is_preexisting(self) -> None:
        """A workspace that is down when it is first followed fires as preexisting."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        rule.first_evaluated_at = None
        assert rule.evaluate(status(Reachability.UNKNOWN), 0) == "unknown"
        rule.first_evaluated_at = at(0)
        assert rule.evaluate(status(Reachability.UNREACHABLE), 2) == "firing"
        assert (rule.firing.since, rule.firing.preexisting) == (at(0), True)
        assert rule.evaluate(status(), 4) == "ok"
        assert rule.evaluate(status(Reachability.UNREACHABLE), 6) == "firing"
        assert (rule.firing.since, rule.firing.preexisting) == (at(6), False)

    def test_a_refused_token_is_an_outage_of_ours(self) -> None:
        """The workspace answers, but only that it refuses us: that fires too."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        refused = poll("unauthorized", 60, name="schedules", good=50)
        old = poll("ok", 10, name="names", good=10)
        assert rule.evaluate(status(Reachability.DEGRADED, refused, old), 62) == "firing"
        idle = poll("ok", 70, name="progress", good=70)
        assert rule.evaluate(status(Reachability.DEGRADED, refused, old, idle), 72) == "firing"
        newer = poll("ok", 80, name="plan_runs", good=80)
        assert rule.evaluate(status(Reachability.DEGRADED, refused, newer), 82) == "ok"

    @pytest.mark.parametrize(
        ("name", "outcome", "word"),
        [
            ("names", "rejected", "ok"),
            ("objects", "unreachable", "ok"),
            ("changes", "throttled", "ok"),
            ("changes", "budget", "ok"),
            ("changes", "incomplete", "ok"),
            ("plan_runs", "store", "ok"),
            ("plan_runs", "not_available", "ok"),
            ("changes", "unreadable", "firing"),
            ("changes", "rejected", "firing"),
            ("plan_runs", "unreachable", "firing"),
        ],
    )
    def test_a_list_that_hides_runs_counts(self, name: str, outcome: str, word: str) -> None:
        """A list of runs that fails fires like an outage; what hides no run does not."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        failing = poll(outcome, 60, name=name, good=0)
        well = poll("ok", 61, name="schedules", good=61)
        assert rule.evaluate(status(Reachability.DEGRADED, failing, well), 62) == word

    @pytest.mark.parametrize("outcome", ["throttled", "budget"])
    @pytest.mark.parametrize(
        ("name", "late", "word"),
        [
            ("changes", "changes", "firing"),
            ("plan_runs", "plan_runs", "firing"),
            ("changes", "reconciliation", "ok"),
            ("reconciliation", "reconciliation", "ok"),
        ],
    )
    def test_a_list_of_runs_that_goes_without_requests_for_long_is_an_outage(
        self, outcome: str, name: str, late: str, word: str
    ) -> None:
        """A wait within a minute is none; past the time of a success no run is seen any more."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        facts = status(Reachability.DEGRADED, poll(outcome, 60, name=name, good=0))
        assert rule.evaluate(msgspec.structs.replace(facts, late=frozenset({late})), 62) == word

    @pytest.mark.parametrize(("unwatched", "word"), [(("job_group",), "firing"), ((), "ok")])
    def test_a_capability_that_is_refused_now_fires(
        self, unwatched: tuple[str, ...], word: str
    ) -> None:
        """It fires where runs or schedules go unwatched by it; a figure less is no outage."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        refused = RefusedCapability(
            capability="c", since=at(0), reason="was offered", unwatched=unwatched
        )
        facts = status(Reachability.DEGRADED, refused=(refused,), reason=refused.reason)
        assert rule.evaluate(facts, 10) == word
        if word == "firing":
            assert rule.firing.facts == {"reason": "was offered", "hides_only": None}

    def test_a_list_that_is_doubted_fires(self) -> None:
        """A list that lacks rows hides runs as well as one that fails."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        doubted = DoubtedList(
            name="job groups", since=at(0), reason="lacks 3", unwatched=("job_group",)
        )
        facts = status(Reachability.DEGRADED, doubted=(doubted,), reason=doubted.reason)
        assert rule.evaluate(facts, 10) == "firing"

    def test_a_cause_names_itself_before_the_status_has_its_reason(self) -> None:
        """A list that goes from doubted to refused between two polls leaves no alert bare."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        refused = RefusedCapability(
            capability="c", since=at(0), reason="was offered", unwatched=("job_group",)
        )
        facts = status(Reachability.DEGRADED, refused=(refused,), reason=None)
        assert rule.evaluate(facts, 10) == "firing"
        assert rule.firing.facts == {"reason": "was offered", "hides_only": None}

    def test_schedules_that_were_not_read_for_long_are_unwatched(self) -> None:
        """However they fail: unread, nothing is missed of them, and that must not be silent."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        late = poll("unreadable", 600, name="schedules", good=0)
        facts = status(Reachability.DEGRADED, late)
        assert rule.evaluate(facts, 659) == "ok"
        facts = msgspec.structs.replace(facts, late=frozenset({"schedules"}))
        assert rule.evaluate(facts, 661) == "firing"
        assert "schedules are unwatched" in str(rule.firing.facts["reason"])


class TestToken:
    """`token_expiring`."""

    def test_it_fires_from_the_threshold_on(self) -> None:
        """Its start is the expiry less the threshold, whenever it is evaluated."""
        rule = EvaluatedRule(RuleKind.TOKEN_EXPIRING, thing="7", threshold=2 * DAY)
        facts = TokenFacts(expires_at=at(10 * DAY), until=at(100 * DAY))
        assert rule.evaluate(facts, 8 * DAY - 1) == "ok"
        assert rule.again_at == at(8 * DAY)
        assert rule.evaluate(facts, 8 * DAY) == "firing"
        assert rule.evaluate(facts, 9 * DAY) == "firing"
        assert rule.firing.since == at(8 * DAY)
        assert rule.firing.facts == {
            "token": "7",
            "expires_at": "2026-12-01T10:00:00Z",
            "reason": "it is valid until 2026-12-01T10:00:00Z, and is not renewed automatically",
            "advice": ("make a new one and put it where the monitor reads it, or delete this one"),
        }

    def test_a_pair_in_trouble_fires_at_once(self) -> None:
        """Its start is that of the trouble; it names the end of the access token in use."""
        kind = TokenTroubleKind.LOCKED_OUT
        rule = EvaluatedRule(RuleKind.TOKEN_EXPIRING, thing=kind.token_id)
        trouble = TokenTrouble(
            kind=kind, since=at(DAY), reason="locked out", advice="generate a new pair"
        )
        facts = TokenFacts(expires_at=at(DAY + 300), until=at(100 * DAY), trouble=trouble)
        assert rule.evaluate(facts, DAY + 60) == "firing"
        assert rule.firing.since == at(DAY)
        assert rule.firing.facts == {
            "token": "refresh_token/locked_out",
            "expires_at": None,
            "reason": "locked out; the access token in use is valid until 2026-11-22T10:05:00Z",
            "advice": "generate a new pair",
        }
        facts = msgspec.structs.replace(facts, trouble=None, expires_at=at(90 * DAY))
        assert rule.evaluate(facts, DAY + 90) == "ok"

    @pytest.mark.parametrize(
        ("expires_at", "word"),
        [(None, "ok"), (at(100 * DAY), "ok"), (at(8.5 * DAY), "firing"), (at(0), "ok")],
        ids=["gone", "renewed", "just expired", "expired long ago"],
    )
    def test_it_is_over_when_nothing_expires_any_more(self, expires_at: object, word: str) -> None:
        """Renewed, deleted, or expired for a day while the workspace goes on answering."""
        rule = EvaluatedRule(RuleKind.TOKEN_EXPIRING, thing="7")
        facts = TokenFacts(expires_at=expires_at, until=at(100 * DAY))  # type: ignore[arg-type]
        assert rule.evaluate(facts, 9 * DAY) == word

    @pytest.mark.parametrize("until", [None, at(DAY)])
    def test_a_reading_that_is_too_old_decides_nothing(self, until: object) -> None:
        """A token that was not read stays as it was: the refused one is ours."""
        rule = EvaluatedRule(RuleKind.TOKEN_EXPIRING, thing="7")
        facts = TokenFacts(expires_at=at(DAY), until=until)  # type: ignore[arg-type]
        assert rule.evaluate(facts, 2 * DAY) == "unknown"


class TestMisses:
    """`callbacks_missed`."""

    def evaluate(self, rule: EvaluatedRule, total: int, seconds: float) -> str:
        return rule.evaluate(status(callbacks_missed=total), seconds)

    def test_it_is_the_growth_that_counts(self) -> None:
        """Three within the hour fire, what was missed before does not, and quiet ends it."""
        rule = EvaluatedRule(RuleKind.CALLBACKS_MISSED)
        history = [(40, 0), (41, 60), (42, 120), (42, 600), (43, 900), (43, 3_700), (43, 4_600)]
        words = [self.evaluate(rule, total, seconds) for total, seconds in history]
        assert words[:5] == ["ok", "ok", "unknown", "unknown", "firing"]
        assert words[5:] == ["unknown", "ok"]

    def test_its_start_is_the_first_that_stayed_away(self) -> None:
        """The evidence begins where the misses began."""
        rule = EvaluatedRule(RuleKind.CALLBACKS_MISSED)
        for total, seconds in ((0, 0), (1, 60), (9, 600)):
            self.evaluate(rule, total, seconds)
        assert rule.firing.since == at(60)
        assert rule.firing.facts == {"missed": 9.0, "first_missed_at": "2026-11-21T10:01:00Z"}

    def test_a_restart_restarts_the_count(self) -> None:
        """A lower total is another life of the daemon, and what it counted was missed as well."""
        rule = EvaluatedRule(RuleKind.CALLBACKS_MISSED)
        words = [self.evaluate(rule, *pair) for pair in ((5, 0), (7, 60), (0, 90), (1, 120))]
        assert words == ["ok", "unknown", "unknown", "firing"]

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.floats(0.5, 900, allow_nan=False)), max_size=300)
    )
    def test_it_agrees_with_counting_every_miss(self, history: list[tuple[int, float]]) -> None:
        """Beside a count of all misses it errs by one step of its memory, which stays small."""
        rule = EvaluatedRule(RuleKind.CALLBACKS_MISSED)
        self.evaluate(rule, 0, 0)
        total, now, misses = 0, 0.0, list[float]()
        for more, seconds in history:
            now += seconds
            total += more
            misses += [now] * more
            word = self.evaluate(rule, total, now)
            surely = sum(1 for miss in misses if miss > now - 3_600 + 61)
            perhaps = sum(1 for miss in misses if miss > now - 3_600 - 61)
            assert word == "firing" or surely < 3
            assert word != "firing" or perhaps >= 3
        assert len(rule.memory_bytes) < 4_000


class TestBudget:
    """`budget_exhausted`."""

    def test_one_failed_attempt_is_bad_luck(self) -> None:
        """A poll without requests counts from its first attempt on, once a second one failed."""
        rule = EvaluatedRule(RuleKind.BUDGET_EXHAUSTED)
        first, again = poll("budget", 0, name="names"), poll("throttled", 600, name="names")
        fine = poll("ok", 0)
        words = [
            rule.evaluate(status(Reachability.REACHABLE, fine, pair), seconds)
            for pair, seconds in ((first, 2), (first, 590), (again, 602))
        ]
        assert words == ["ok", "ok", "firing"]
        assert rule.firing.since == at(2)
        assert rule.firing.facts == {
            "scope": "workspace",
            "limit": None,
            "polls": "names",
            "classes": None,
        }
        good = poll("ok", 1_200, name="names")
        assert rule.evaluate(status(Reachability.REACHABLE, fine, good), 1_202) == "ok"
        assert rule.memory_bytes == b""

    def test_an_empty_scope_fires_at_once(self) -> None:
        """Nothing is left of a quota: it says so, with the scope that is shortest."""
        rule = EvaluatedRule(RuleKind.BUDGET_EXHAUSTED)
        budgets = (
            BudgetStatus(scope="own", limit=120, remaining=90),
            BudgetStatus(scope="user", limit=50, remaining=0),
        )
        assert rule.evaluate(status(Reachability.REACHABLE, poll("ok", 0), budgets=budgets), 5)
        assert rule.firing.since == at(5)
        assert rule.firing.facts == {
            "scope": "user",
            "limit": 50.0,
            "polls": None,
            "classes": None,
        }
        left = (budgets[0],)
        facts = status(Reachability.REACHABLE, poll("ok", 9), budgets=left)
        assert rule.evaluate(facts, 10) == "ok"

    def test_classes_that_starve_fire_and_are_named(self) -> None:
        """Requests of no poll, as for webhook tasks, starve too; it fires from the first class."""
        rule = EvaluatedRule(RuleKind.BUDGET_EXHAUSTED)

        def starving(*classes: str) -> WorkspaceFacts:
            budget = BudgetStatus(scope="own", limit=120, remaining=2, starved=classes)
            return status(Reachability.REACHABLE, poll("ok", 0), budgets=(budget,))

        assert rule.evaluate(starving(), 0) == "ok"
        assert rule.evaluate(starving("schedules"), 60) == "firing"
        assert rule.evaluate(starving("details", "schedules"), 120) == "firing"
        assert rule.firing.since == at(60)
        assert rule.firing.facts["classes"] == "details, schedules"
        assert rule.evaluate(starving("details"), 180) == "firing"
        assert rule.firing.since == at(120)
        assert rule.evaluate(starving(), 240) == "ok"
        assert rule.memory_bytes == b""

    @pytest.mark.parametrize(("outcome", "scope"), [("budget", "own"), ("throttled", "user")])
    def test_it_names_the_scope_that_is_short(self, outcome: str, scope: str) -> None:
        """Our own budget refuses by one word, the workspace by another; both have their figures."""
        rule = EvaluatedRule(RuleKind.BUDGET_EXHAUSTED)
        budgets = (
            BudgetStatus(scope="own", limit=120, remaining=10),
            BudgetStatus(scope="user", limit=50, remaining=20),
        )
        for seconds in (0, 60):
            polls = [poll(outcome, seconds, name=name) for name in ("tokens", "names")]
            rule.evaluate(status(Reachability.REACHABLE, *polls, budgets=budgets), seconds)
        assert rule.firing.facts["scope"] == scope
        assert rule.firing.facts["polls"] == "names, tokens"

    def test_a_workspace_that_was_not_polled_yet_decides_nothing(self) -> None:
        """After a restart an alert stays as it is until the first poll."""
        assert EvaluatedRule(RuleKind.BUDGET_EXHAUSTED).evaluate(status(), 0) == "unknown"
