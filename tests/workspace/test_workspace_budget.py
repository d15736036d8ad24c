"""The request budget: its rate, its order, and what the workspace's headers do to it."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from monitor.model.errors import BudgetExhaustedError
from monitor.workspace.answer_headers import Quota, quotas_in
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.client import Priority
from monitor.workspace.request_budget import RequestBudget
from tests.clocks import ManualClock
from tests.workspace.scripted import SkippingClock, answer, client_of, refusal, serving

OPERATION = "listJobLibrary"


class Fixture:
    """A budget on a hand-moved clock, and the order in which its callers got their turns."""

    def __init__(self, requests_per_minute: float = 60) -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.budget = RequestBudget(
            workspace="north",
            requests_per_minute=requests_per_minute,
            clock=self.clock,
            metrics=ApiMetrics.of(self.registry),
        )
        self.turns: list[tuple[str, float]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def spend(
        self,
        name: str,
        priority: Priority,
        *,
        wait_seconds: float = 1e6,
        operation_id: str = OPERATION,
        has_own_quota: bool = False,
    ) -> asyncio.Task[None]:
        """Let a caller queue up; its turn is recorded under its name."""

        async def run() -> None:
            await self.budget.acquire(
                priority,
                wait_seconds=wait_seconds,
                operation_id=operation_id,
                has_own_quota=has_own_quota,
            )
            self.turns.append((name, self.clock.monotonic()))

        task = asyncio.get_running_loop().create_task(run(), name=name)
        self._tasks.append(task)
        return task

    async def drain(self, priority: Priority = Priority.CHANGES) -> None:
        """Use up what the bucket holds."""
        while True:
            try:
                await self.budget.acquire(priority, wait_seconds=0, operation_id=OPERATION)
            except BudgetExhaustedError:
                return

    def quota(self, *, limit: int, remaining: int, lasts: float, scope: str = "user") -> Quota:
        now = self.clock.now().timestamp()
        return Quota(scope=scope, limit=limit, remaining=remaining, reset_at=now + lasts)

    def learn(self, *quotas: Quota, operation_id: str | None = None) -> None:
        self.budget.learn(
            quotas, operation_id=operation_id, workspace_now=self.clock.now().timestamp()
        )

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.turns]


async def test_the_long_run_rate_is_the_stated_one() -> None:
    """A burst of a quarter of a minute, then exactly the rate, however many are waiting."""
    fixture = Fixture(requests_per_minute=60)
    for number in range(200):
        fixture.spend(str(number), Priority.CHANGES)
    await fixture.clock.advance(0)
    assert len(fixture.turns) == 15
    await fixture.clock.advance(100)
    assert len(fixture.turns) == 115
    assert fixture.names == [str(number) for number in range(115)]
    for task in fixture._tasks:
        task.cancel()


async def test_turns_go_by_priority_then_first_come() -> None:
    """Requests of the higher class go first; equals go in order of arrival."""
    fixture = Fixture()
    await fixture.drain()
    # Few enough turns that no class is owed one by its share.
    for number, priority in enumerate([*reversed(Priority), Priority.CHANGES]):
        fixture.spend(f"{priority.name}{number}", priority)
    await fixture.clock.advance(0.5)
    fixture.spend("CHANGES-late", Priority.CHANGES)
    await fixture.clock.advance(120)
    ranks = [Priority[name.rstrip("-late0123456789")] for name in fixture.names]
    assert ranks == sorted(ranks)
    assert fixture.names[:3] == ["CHANGES8", "CHANGES9", "CHANGES-late"]
    assert len(fixture.names) == 11


async def test_requests_that_can_wait_leave_room() -> None:
    """The lowest class cannot empty the bucket: a change poll finds its turn at once."""
    fixture = Fixture(requests_per_minute=120)
    await fixture.drain(Priority.INVENTORY)
    waiting = fixture.spend("inventory", Priority.INVENTORY)
    await fixture.clock.advance(0)
    assert fixture.names == []
    for number in range(10):
        fixture.spend(f"change{number}", Priority.CHANGES)
    await fixture.clock.advance(0)
    assert len(fixture.names) == 10
    waiting.cancel()


async def test_the_lowest_class_is_served_when_nothing_else_is_there() -> None:
    """Left alone, even the lowest class gets the whole rate."""
    fixture = Fixture(requests_per_minute=60)
    await fixture.drain()
    for number in range(40):
        fixture.spend(str(number), Priority.INVENTORY)
    await fixture.clock.advance(38)
    assert 29 <= len(fixture.turns) <= 32
    for task in fixture._tasks:
        task.cancel()


@pytest.mark.parametrize("rate", [0.5, 1, 3])
async def test_a_tiny_budget_serves_every_class(rate: float) -> None:
    """With room for a single request the reserve locks no class out."""
    fixture = Fixture(requests_per_minute=rate)
    for priority in Priority:
        fixture.spend(priority.name, priority)
    await fixture.clock.advance(60 / rate * 9)
    assert fixture.names == [priority.name for priority in Priority]


async def test_a_wait_is_bounded() -> None:
    """Without a turn in time the caller gets an error, keeps no place, and time is counted."""
    fixture = Fixture(requests_per_minute=1)
    await fixture.drain()
    task = fixture.spend("late", Priority.CHANGES, wait_seconds=30)
    await fixture.clock.advance(29)
    assert not task.done()
    await fixture.clock.advance(1)
    with pytest.raises(BudgetExhaustedError) as caught:
        task.result()
    assert caught.value.operation_id == OPERATION
    assert not any(fixture.budget._queues.values())
    waited = fixture.registry.get_sample_value(
        "dataprep_monitor_api_throttle_seconds_total", {"workspace": "north"}
    )
    assert waited == pytest.approx(30)


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    """Cancelling the one in front lets the next go at its time, without a token lost."""
    fixture = Fixture(requests_per_minute=60)
    await fixture.drain()
    first = fixture.spend("first", Priority.CHANGES)
    fixture.spend("second", Priority.RECONCILIATION)
    await fixture.clock.advance(0.5)
    first.cancel()
    await fixture.clock.advance(10)
    assert fixture.names == ["second"]


async def test_the_queue_is_bounded() -> None:
    """Too many waiting callers of one class are refused at once instead of piling up."""
    fixture = Fixture(requests_per_minute=1)
    await fixture.drain()
    for number in range(1000):
        fixture.spend(str(number), Priority.NAMES)
    await fixture.clock.advance(0)
    with pytest.raises(BudgetExhaustedError, match="names are waiting already"):
        await fixture.budget.acquire(Priority.NAMES, wait_seconds=60, operation_id=OPERATION)
    fixture.spend("change", Priority.CHANGES)
    await fixture.clock.advance(60)
    assert fixture.names == ["change"]
    for task in fixture._tasks:
        task.cancel()


async def test_a_pause_holds_everybody() -> None:
    """After 429 nothing is sent until the announced time is over."""
    fixture = Fixture()
    fixture.budget.pause(57, operation_id=None)
    fixture.spend("change", Priority.CHANGES)
    await fixture.clock.advance(56)
    assert fixture.names == []
    await fixture.clock.advance(2)
    assert fixture.turns == [("change", 57.0)]


async def test_a_quota_of_one_operation_binds_only_it() -> None:
    """A spent quota of testing webhooks does not stop the polls, even with waiters before it."""
    fixture = Fixture()
    fixture.learn(fixture.quota(limit=20, remaining=0, lasts=50), operation_id="testWebhook")
    fixture.budget.pause(40, operation_id="testWebhook")
    fixture.spend("test", Priority.CHANGES, operation_id="testWebhook", has_own_quota=True)
    fixture.spend("poll", Priority.RECONCILIATION)
    await fixture.clock.advance(0)
    assert fixture.names == ["poll"]
    await fixture.clock.advance(51)
    assert fixture.turns[1] == ("test", 50.0)


async def test_a_general_quota_shrinks_the_budget() -> None:
    """The quota of any other answer bounds all requests until it resets, and its rate too."""
    fixture = Fixture(requests_per_minute=600)
    fixture.learn(fixture.quota(limit=30, remaining=5, lasts=40))
    for number in range(300):
        fixture.spend(str(number), Priority.CHANGES)
    await fixture.clock.advance(39)
    assert len(fixture.turns) == 5
    own, user = fixture.budget.status()
    assert (own.scope, own.limit) == ("own", 600)
    assert (user.scope, user.limit, user.remaining) == ("user", 30, 0)
    for _ in range(40):
        await fixture.clock.advance(0.1)
    assert len(fixture.turns) > 30
    for task in fixture._tasks:
        task.cancel()


async def test_a_general_quota_keeps_a_reserve_too() -> None:
    """Of the last requests of an announced quota, some stay for those who matter more."""
    fixture = Fixture(requests_per_minute=600)
    fixture.learn(fixture.quota(limit=20, remaining=10, lasts=60))
    fixture.spend("inventory", Priority.INVENTORY)
    await fixture.clock.advance(0)
    assert fixture.names == []
    fixture.spend("change", Priority.CHANGES)
    await fixture.clock.advance(0)
    assert fixture.names == ["change"]
    # When the window has passed, the bucket fills at our own rate up to its own reserve again.
    await fixture.clock.advance(75)
    assert fixture.names == ["change", "inventory"]


async def test_a_late_answer_does_not_widen_a_window() -> None:
    """Answers that overtake each other: the smaller remainder of one window counts."""
    fixture = Fixture()
    quota = fixture.quota(limit=20, remaining=1, lasts=60)
    late = Quota(scope="user", limit=20, remaining=9, reset_at=quota.reset_at)
    fixture.learn(quota)
    fixture.learn(late)
    assert fixture.budget.status()[1].remaining == 1


async def test_an_absurd_reset_is_believed_for_a_limited_time() -> None:
    """A reset years ahead silences a workspace for an hour at most."""
    fixture = Fixture()
    fixture.learn(fixture.quota(limit=20, remaining=0, lasts=1e9))
    fixture.budget.pause(1e9, operation_id=None)
    fixture.spend("change", Priority.CHANGES)
    await fixture.clock.advance(3601)
    assert fixture.names == ["change"]


def test_reset_is_read_in_either_unit() -> None:
    """Milliseconds, as recorded, and seconds name the same instant."""
    headers = {"x-rate-limit-user-limit": "30", "x-rate-limit-user-remaining": "0"}
    both = [
        quotas_in({**headers, "x-rate-limit-user-reset": text})
        for text in ("1631096271696", "1631096271.696")
    ]
    assert both[0] == both[1]
    assert both[0][0].reset_at == pytest.approx(1631096271.696)


@pytest.mark.parametrize("junk", ["", "soon", "-1", "nan", "inf", "1e400"])
def test_unreadable_quotas_are_left_out(junk: str) -> None:
    """A header that is no number changes nothing."""
    headers = {
        "x-rate-limit-user-limit": "30",
        "x-rate-limit-user-remaining": "0",
        "x-rate-limit-user-reset": junk,
    }
    assert quotas_in(headers) == ()


async def test_the_client_learns_from_headers() -> None:
    """Quota headers of an answer show in the status and in the metrics."""
    clock, registry = SkippingClock(), CollectorRegistry()
    reset = str(int((clock.now().timestamp() + 30) * 1000))
    headers = {
        "Date": "Sat, 21 Nov 2026 10:00:00 GMT",
        "x-rate-limit-workspace-limit": "60",
        "x-rate-limit-workspace-remaining": "12",
        "x-rate-limit-workspace-reset": reset,
    }
    async with (
        serving(answer({"id": 1}, headers=headers)) as workspace,
        client_of(workspace.url, clock=clock, registry=registry) as client,
    ):
        await client.runs.job_group("1", priority=Priority.RECONCILIATION)
        budgets = [
            budget for budget in client.requester.budget.status() if budget.scope == "workspace"
        ]
    assert [(item.limit, item.remaining) for item in budgets] == [(60, 12)]
    labels = {"workspace": "north", "scope": "workspace"}
    name = "dataprep_monitor_api_rate_limit_remaining"
    assert registry.get_sample_value(name, labels) == 12


async def test_a_429_pauses_the_other_callers_too() -> None:
    """When one request is throttled, the next one waits although it was never refused itself."""
    clock = SkippingClock()
    throttled = refusal(429, "TooManyRequestsException", {"x-retry-after": "20"})
    async with (
        serving(throttled, answer({"id": 1})) as workspace,
        client_of(workspace.url, clock=clock, retries=0) as client,
    ):
        with pytest.raises(Exception, match="429"):
            await client.runs.job_group("1", priority=Priority.RECONCILIATION)
        before = clock.monotonic()
        await client.runs.job_group("2", priority=Priority.CHANGES)
    assert clock.monotonic() - before == pytest.approx(20)


async def test_two_workspaces_share_one_registry() -> None:
    """Each workspace has its own series in one set of metrics."""
    registry = CollectorRegistry()
    async with serving(answer({"id": 1})) as workspace:
        for _ in range(2):
            async with client_of(workspace.url, registry=registry) as client:
                await client.runs.job_group("1", priority=Priority.RECONCILIATION)
    labels = {"workspace": "north", "operation": "getJobGroup", "code": "200"}
    assert registry.get_sample_value("dataprep_monitor_api_requests_total", labels) == 2


async def test_when_a_request_of_now_would_have_its_turn() -> None:
    """The estimate is the wait that a request then has, after those of its class and before it."""
    fixture = Fixture()
    budget = fixture.budget
    assert budget.seconds_until_turn(Priority.FAILED_DETAILS) == 0.0
    await fixture.drain()
    alone = budget.seconds_until_turn(Priority.FAILED_DETAILS)
    fixture.spend("first", Priority.ENDS)
    fixture.spend("later", Priority.INVENTORY)
    await fixture.clock.advance(0)
    second = budget.seconds_until_turn(Priority.FAILED_DETAILS)
    began = fixture.clock.monotonic()
    fixture.spend("second", Priority.FAILED_DETAILS)
    await fixture.clock.advance(second)

    assert 0.0 < alone < second
    assert fixture.turns[-1] == ("second", began + second)


async def test_a_pause_puts_off_the_turn_of_a_request_of_now() -> None:
    """Where the workspace says when to come back, no earlier turn is promised."""
    fixture = Fixture()
    fixture.budget.pause(40, operation_id=None)
    assert fixture.budget.seconds_until_turn(Priority.FAILED_DETAILS) == 40.0


async def test_a_quota_that_others_will_spend_puts_off_the_turn() -> None:
    """Of an announced quota, what those before it take is not left for a request of now."""
    fixture = Fixture(6_000)
    fixture.learn(fixture.quota(limit=100, remaining=20, lasts=30))
    assert fixture.budget.seconds_until_turn(Priority.FAILED_DETAILS, ahead=3) == 0.0
    assert fixture.budget.seconds_until_turn(Priority.FAILED_DETAILS, ahead=6) == 30.0
