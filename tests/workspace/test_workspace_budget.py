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


class Stage:
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
    stage = Stage(requests_per_minute=60)
    for number in range(200):
        stage.spend(str(number), Priority.CHANGES)
    await stage.clock.advance(0)
    assert len(stage.turns) == 15
    await stage.clock.advance(100)
    assert len(stage.turns) == 115
    assert stage.names == [str(number) for number in range(115)]
    for task in stage._tasks:
        task.cancel()


async def test_turns_go_by_priority_then_first_come() -> None:
    """Whoever matters more goes first, whenever it came; equals go in order of arrival."""
    stage = Stage()
    await stage.drain()
    # Few enough turns that nobody is owed one by its share.
    for number, priority in enumerate([*reversed(Priority), Priority.CHANGES]):
        stage.spend(f"{priority.name}{number}", priority)
    await stage.clock.advance(0.5)
    stage.spend("CHANGES-late", Priority.CHANGES)
    await stage.clock.advance(120)
    ranks = [Priority[name.rstrip("-late0123456789")] for name in stage.names]
    assert ranks == sorted(ranks)
    assert stage.names[:3] == ["CHANGES8", "CHANGES9", "CHANGES-late"]
    assert len(stage.names) == 11


async def test_what_can_wait_leaves_room() -> None:
    """The lowest class cannot empty the bucket: a change poll finds its turn at once."""
    stage = Stage(requests_per_minute=120)
    await stage.drain(Priority.INVENTORY)
    waiting = stage.spend("inventory", Priority.INVENTORY)
    await stage.clock.advance(0)
    assert stage.names == []
    for number in range(10):
        stage.spend(f"change{number}", Priority.CHANGES)
    await stage.clock.advance(0)
    assert len(stage.names) == 10
    waiting.cancel()


async def test_the_lowest_class_is_served_when_nothing_else_is_there() -> None:
    """Left alone, even the lowest class gets the whole rate."""
    stage = Stage(requests_per_minute=60)
    await stage.drain()
    for number in range(40):
        stage.spend(str(number), Priority.INVENTORY)
    await stage.clock.advance(38)
    assert 29 <= len(stage.turns) <= 32
    for task in stage._tasks:
        task.cancel()


@pytest.mark.parametrize("rate", [0.5, 1, 3])
async def test_a_tiny_budget_serves_every_class(rate: float) -> None:
    """With room for a single request the reserve locks nobody out."""
    stage = Stage(requests_per_minute=rate)
    for priority in Priority:
        stage.spend(priority.name, priority)
    await stage.clock.advance(60 / rate * 9)
    assert stage.names == [priority.name for priority in Priority]


async def test_a_wait_is_bounded() -> None:
    """Without a turn in time the caller gets an error, keeps no place, and time is counted."""
    stage = Stage(requests_per_minute=1)
    await stage.drain()
    task = stage.spend("late", Priority.CHANGES, wait_seconds=30)
    await stage.clock.advance(29)
    assert not task.done()
    await stage.clock.advance(1)
    with pytest.raises(BudgetExhaustedError) as caught:
        task.result()
    assert caught.value.operation_id == OPERATION
    assert not any(stage.budget._queues.values())
    waited = stage.registry.get_sample_value(
        "dataprep_monitor_api_throttle_seconds_total", {"workspace": "north"}
    )
    assert waited == pytest.approx(30)


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    """Cancelling the one in front lets the next go at its time, without a token lost."""
    stage = Stage(requests_per_minute=60)
    await stage.drain()
    first = stage.spend("first", Priority.CHANGES)
    stage.spend("second", Priority.RECONCILIATION)
    await stage.clock.advance(0.5)
    first.cancel()
    await stage.clock.advance(10)
    assert stage.names == ["second"]


async def test_the_queue_is_bounded() -> None:
    """Too many waiting callers of one class are refused at once instead of piling up."""
    stage = Stage(requests_per_minute=1)
    await stage.drain()
    for number in range(1000):
        stage.spend(str(number), Priority.NAMES)
    await stage.clock.advance(0)
    with pytest.raises(BudgetExhaustedError, match="names are waiting already"):
        await stage.budget.acquire(Priority.NAMES, wait_seconds=60, operation_id=OPERATION)
    stage.spend("change", Priority.CHANGES)
    await stage.clock.advance(60)
    assert stage.names == ["change"]
    for task in stage._tasks:
        task.cancel()


async def test_a_pause_holds_everybody() -> None:
    """After 429 nothing is sent until the announced time is over."""
    stage = Stage()
    stage.budget.pause(57, operation_id=None)
    stage.spend("change", Priority.CHANGES)
    await stage.clock.advance(56)
    assert stage.names == []
    await stage.clock.advance(2)
    assert stage.turns == [("change", 57.0)]


async def test_a_quota_of_one_operation_binds_only_it() -> None:
    """A spent quota of testing webhooks does not stop the polls, even with waiters before it."""
    stage = Stage()
    stage.learn(stage.quota(limit=20, remaining=0, lasts=50), operation_id="testWebhook")
    stage.budget.pause(40, operation_id="testWebhook")
    stage.spend("test", Priority.CHANGES, operation_id="testWebhook", has_own_quota=True)
    stage.spend("poll", Priority.RECONCILIATION)
    await stage.clock.advance(0)
    assert stage.names == ["poll"]
    await stage.clock.advance(51)
    assert stage.turns[1] == ("test", 50.0)


async def test_a_general_quota_shrinks_the_budget() -> None:
    """What any other answer shows bounds all requests until it resets, and its rate too."""
    stage = Stage(requests_per_minute=600)
    stage.learn(stage.quota(limit=30, remaining=5, lasts=40))
    for number in range(300):
        stage.spend(str(number), Priority.CHANGES)
    await stage.clock.advance(39)
    assert len(stage.turns) == 5
    own, user = stage.budget.status()
    assert (own.scope, own.limit) == ("own", 600)
    assert (user.scope, user.limit, user.remaining) == ("user", 30, 0)
    for _ in range(40):
        await stage.clock.advance(0.1)
    assert len(stage.turns) > 30
    for task in stage._tasks:
        task.cancel()


async def test_a_general_quota_keeps_a_reserve_too() -> None:
    """Of the last requests of an announced quota, some stay for those who matter more."""
    stage = Stage(requests_per_minute=600)
    stage.learn(stage.quota(limit=20, remaining=10, lasts=60))
    stage.spend("inventory", Priority.INVENTORY)
    await stage.clock.advance(0)
    assert stage.names == []
    stage.spend("change", Priority.CHANGES)
    await stage.clock.advance(0)
    assert stage.names == ["change"]
    # When the window has passed, the bucket fills at our own rate up to its own reserve again.
    await stage.clock.advance(75)
    assert stage.names == ["change", "inventory"]


async def test_a_late_answer_does_not_widen_a_window() -> None:
    """Answers that overtake each other: the smaller remainder of one window counts."""
    stage = Stage()
    quota = stage.quota(limit=20, remaining=1, lasts=60)
    late = Quota(scope="user", limit=20, remaining=9, reset_at=quota.reset_at)
    stage.learn(quota)
    stage.learn(late)
    assert stage.budget.status()[1].remaining == 1


async def test_an_absurd_reset_is_not_believed_for_ever() -> None:
    """A reset years ahead silences a workspace for an hour at most."""
    stage = Stage()
    stage.learn(stage.quota(limit=20, remaining=0, lasts=1e9))
    stage.budget.pause(1e9, operation_id=None)
    stage.spend("change", Priority.CHANGES)
    await stage.clock.advance(3601)
    assert stage.names == ["change"]


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
        budgets = [budget for budget in client.requester.budgets() if budget.scope == "workspace"]
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
    stage = Stage()
    budget = stage.budget
    assert budget.seconds_until_turn(Priority.FAILED_DETAILS) == 0.0
    await stage.drain()
    alone = budget.seconds_until_turn(Priority.FAILED_DETAILS)
    stage.spend("first", Priority.ENDS)
    stage.spend("later", Priority.INVENTORY)
    await stage.clock.advance(0)
    second = budget.seconds_until_turn(Priority.FAILED_DETAILS)
    began = stage.clock.monotonic()
    stage.spend("second", Priority.FAILED_DETAILS)
    await stage.clock.advance(second)

    assert 0.0 < alone < second
    assert stage.turns[-1] == ("second", began + second)


async def test_a_pause_puts_off_the_turn_of_a_request_of_now() -> None:
    """Where the workspace says when to come back, no earlier turn is promised."""
    stage = Stage()
    stage.budget.pause(40, operation_id=None)
    assert stage.budget.seconds_until_turn(Priority.FAILED_DETAILS) == 40.0


async def test_a_quota_that_others_will_spend_puts_off_the_turn() -> None:
    """Of an announced quota, what those before it take is not left for a request of now."""
    stage = Stage(6_000)
    stage.learn(stage.quota(limit=100, remaining=20, lasts=30))
    assert stage.budget.seconds_until_turn(Priority.FAILED_DETAILS, ahead=3) == 0.0
    assert stage.budget.seconds_until_turn(Priority.FAILED_DETAILS, ahead=6) == 30.0
