"""A failed task is restarted, counted and shown; a vital one ends the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import structlog
from prometheus_client import CollectorRegistry

from monitor.model.errors import BusLostError, BusSchemaError, BusUnavailableError
from monitor.supervisor import Supervisor, TaskReturnedError, TaskState, Waits
from tests.clocks import ManualClock


class Worker:
    """A task that fails a number of times, then runs until it is cancelled."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.starts = 0

    async def run(self) -> None:
        self.starts += 1
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.Event().wait()


class SupervisorScenario:
    """A supervisor with its surroundings, and the tasks that it runs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.supervisor = Supervisor(
            clock=self.clock,
            registry=self.registry,
            waits=Waits(first_seconds=1, cap_seconds=4, healthy_seconds=100),
            jitter=lambda: 1.0,
        )
        self.tasks: list[asyncio.Task[None]] = []

    def failures(self, name: str) -> float | None:
        return self.registry.get_sample_value(
            "dataprep_monitor_task_failures_total", {"task": name}
        )

    async def start(self, name: str, worker: Worker) -> asyncio.Task[None]:
        task = asyncio.create_task(self.supervisor.supervise(name, worker.run))
        self.tasks.append(task)
        await self.clock.advance(0)
        return task


@pytest.fixture
async def scenario() -> AsyncIterator[SupervisorScenario]:
    """Yield a supervisor and cancel its tasks at the end."""
    scenario = SupervisorScenario()
    yield scenario
    for task in scenario.tasks:
        task.cancel()
    await asyncio.gather(*scenario.tasks, return_exceptions=True)


async def test_a_group_that_fails_is_restarted(scenario: SupervisorScenario) -> None:
    """A task that fails by one of a group of its own is restarted as any other."""
    worker = Worker(RuntimeError("defect"))

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            group.create_task(asyncio.Event().wait())

    task = asyncio.create_task(scenario.supervisor.supervise("group", run))
    scenario.tasks.append(task)
    await scenario.clock.advance(0)
    assert scenario.supervisor.status()["group"].state is TaskState.FAILED
    await scenario.clock.advance(1)

    assert worker.starts == 2
    assert scenario.supervisor.status()["group"].state is TaskState.RUNNING


async def test_a_failed_task_is_restarted_after_a_wait(scenario: SupervisorScenario) -> None:
    """The restart comes when the wait is over, not before, and is counted."""
    worker = Worker(RuntimeError("odd payload"))
    await scenario.start("polling", worker)
    assert worker.starts == 1
    assert scenario.supervisor.status()["polling"].state is TaskState.FAILED
    await scenario.clock.advance(0.9)
    assert worker.starts == 1
    await scenario.clock.advance(0.1)
    assert worker.starts == 2
    status = scenario.supervisor.status()["polling"]
    assert (status.state, status.restarts) == (TaskState.RUNNING, 1)
    assert status.since == scenario.clock.now()
    assert scenario.failures("polling") == 1


async def test_waits_double_up_to_a_cap(scenario: SupervisorScenario) -> None:
    """A task that fails again and again is tried after 1, 2, 4, 4 seconds."""
    worker = Worker(*[RuntimeError("again")] * 5)
    await scenario.start("mqtt", worker)
    starts = []
    for _ in range(12):
        await scenario.clock.advance(1)
        starts.append(worker.starts)
    assert starts == [2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5]


@pytest.mark.parametrize(
    ("failure", "seconds"), [(RuntimeError("again"), 100), (BusUnavailableError("away"), 5)]
)
async def test_a_task_that_was_healthy_restarts_its_waits(
    scenario: SupervisorScenario, failure: Exception, seconds: float
) -> None:
    """After a long run the next failure waits only the first wait; no try in vain lasts long."""
    release = asyncio.Event()
    starts: list[float] = []

    async def run() -> None:
        starts.append(scenario.clock.monotonic())
        if len(starts) == 3:
            await release.wait()
        raise failure

    scenario.tasks.append(asyncio.create_task(scenario.supervisor.supervise("rules", run)))
    await scenario.clock.advance(3)
    assert starts == [0, 1, 3]
    await scenario.clock.advance(seconds)
    release.set()
    await scenario.clock.advance(1)
    assert starts == [0, 1, 3, seconds + 4]


async def test_jitter_shortens_a_wait_by_at_most_half() -> None:
    """With the least jitter the first wait is half as long."""
    clock = ManualClock()
    supervisor = Supervisor(clock=clock, registry=CollectorRegistry(), jitter=lambda: 0.0)
    worker = Worker(RuntimeError("once"))
    task = asyncio.create_task(supervisor.supervise("polling", worker.run))
    await clock.advance(0.4)
    assert worker.starts == 1
    await clock.advance(0.1)
    assert worker.starts == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_failure_does_not_touch_the_others(scenario: SupervisorScenario) -> None:
    """The task beside a failed one continues."""
    healthy = Worker()
    await scenario.start("workspace a", Worker(RuntimeError("broken")))
    task = await scenario.start("workspace b", healthy)
    assert scenario.supervisor.status()["workspace a"].state is TaskState.FAILED
    assert scenario.supervisor.status()["workspace b"].state is TaskState.RUNNING
    assert not task.done()
    assert scenario.failures("workspace b") == 0


async def test_a_vital_failure_ends_the_daemon(scenario: SupervisorScenario) -> None:
    """A vital task is not restarted: its failure is counted and raised."""
    worker = Worker(BusUnavailableError("the disk is full"))
    with pytest.raises(BusUnavailableError):
        await scenario.supervisor.supervise("writer", worker.run, vital=True)
    assert worker.starts == 1
    assert scenario.failures("writer") == 1
    status = scenario.supervisor.status()["writer"]
    assert status.state is TaskState.FAILED
    assert status.reason == "BusUnavailableError: the disk is full"


async def test_a_failure_cancels_the_siblings_in_a_group(scenario: SupervisorScenario) -> None:
    """In the daemon's task group, a vital failure ends the other tasks."""
    with pytest.RaisesGroup(BusUnavailableError):
        async with asyncio.TaskGroup() as group:
            vital = Worker(BusUnavailableError("no space"))
            group.create_task(scenario.supervisor.supervise("polling", Worker().run))
            group.create_task(scenario.supervisor.supervise("writer", vital.run, vital=True))
    assert set(scenario.supervisor.status()) == {"writer"}


async def test_a_finite_task_may_end(scenario: SupervisorScenario) -> None:
    """A finite task that returns is done, and stays listed as done."""

    async def run() -> None:
        return

    await scenario.supervisor.supervise("registrar", run, finite=True)
    assert scenario.supervisor.status()["registrar"].state is TaskState.DONE
    assert scenario.failures("registrar") == 0


async def test_a_task_that_returns_too_early_is_restarted(scenario: SupervisorScenario) -> None:
    """An endless task that returns has failed, whatever it thinks."""
    ends: list[None] = []

    async def run() -> None:
        ends.append(None)

    scenario.tasks.append(asyncio.create_task(scenario.supervisor.supervise("inbox", run)))
    await scenario.clock.advance(1)
    assert len(ends) == 2
    assert scenario.failures("inbox") == 2
    with pytest.raises(TaskReturnedError):
        await scenario.supervisor.supervise("observer", run, vital=True)


async def test_cancellation_passes_and_ends_the_task(scenario: SupervisorScenario) -> None:
    """A cancelled task ends at once, running or waiting, and is no longer listed."""
    running = await scenario.start("running", Worker())
    waiting = await scenario.start("waiting", Worker(RuntimeError("broken")))
    running.cancel()
    waiting.cancel()
    await scenario.clock.advance(0)
    assert running.cancelled()
    assert waiting.cancelled()
    assert scenario.supervisor.status() == {}


async def test_the_reason_shows_no_foreign_text(scenario: SupervisorScenario) -> None:
    """A library's error may contain anything, so only its type is shown outside the log."""
    await scenario.start("mqtt", Worker(ValueError("password is hunter22")))
    assert scenario.supervisor.status()["mqtt"].reason == "ValueError, see the log"


async def test_the_trace_is_logged(scenario: SupervisorScenario) -> None:
    """The log gets the whole error with the name of the task."""
    with structlog.testing.capture_logs() as logged:
        await scenario.start("polling", Worker(RuntimeError("odd payload")))
    assert {"event": "task failed", "task": "polling", "exc_info": True}.items() <= (
        logged[0].items()
    )


async def test_a_task_that_fails_while_it_is_cancelled_is_over(
    scenario: SupervisorScenario,
) -> None:
    """It is not started again, though its group hides the cancellation under the failure."""
    starts = 0

    async def fail() -> None:
        raise BusUnavailableError("the store is damaged")

    async def run() -> None:
        nonlocal starts
        starts += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            task.cancel()

    task = asyncio.create_task(scenario.supervisor.supervise("mqtt", run))
    scenario.tasks.append(task)
    await scenario.clock.advance(100)

    assert (starts, task.cancelled()) == (1, True)
    assert scenario.supervisor.status() == {}


@pytest.mark.parametrize("is_grouped", [False, True])
async def test_the_store_needs_no_trace(scenario: SupervisorScenario, *, is_grouped: bool) -> None:
    """A failure of the store is one sentence with each restart, also where it ended a group."""
    error = BusSchemaError("an event cannot be understood")
    with structlog.testing.capture_logs() as logged:
        await scenario.start(
            "metrics", Worker(ExceptionGroup("tasks", [error]) if is_grouped else error)
        )
    assert (logged[0]["reason"], logged[0]["exc_info"]) == ("an event cannot be understood", False)


async def test_a_part_that_fails_is_left_out(scenario: SupervisorScenario) -> None:
    """Its failure is logged with its trace once, returned on request, and stops no other part."""
    reasons: list[str] = []

    def break_down() -> int:
        raise ValueError("password is hunter22")

    with structlog.testing.capture_logs() as logged:
        answers = [
            scenario.supervisor.contain("rule x", break_down, reasons.append) for _ in range(3)
        ]
        answers.append(scenario.supervisor.contain("rule y", lambda: 7, reasons.append))

    assert answers == [None, None, None, 7]
    assert reasons == ["ValueError, see the log"] * 3
    assert [line["part"] for line in logged] == ["rule x"]


async def test_a_part_that_fails_for_long_is_logged_again(scenario: SupervisorScenario) -> None:
    """The same failure is logged every ten minutes, also where it recovered in between."""

    def break_down() -> int:
        raise ValueError("odd row")

    def contain() -> None:
        scenario.supervisor.contain("rule x", break_down, lambda _: None)
        scenario.supervisor.contain("rule x", lambda: 7, lambda _: None)

    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            for _ in range(3):
                contain()
                await scenario.clock.advance(60)
            await scenario.clock.advance(600)

    assert [line["event"] for line in logged] == ["part failed", "part failed"]


async def test_two_failures_of_a_part_in_turns_are_logged_once_each(
    scenario: SupervisorScenario,
) -> None:
    """Two subjects that break a rule in different ways do not fill the log."""

    def break_down(text: str) -> int:
        raise ValueError(text)

    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            for text in ("odd row", "odd column"):
                scenario.supervisor.contain("rule x", partial(break_down, text), lambda _: None)

    assert len(logged) == 2


@pytest.mark.parametrize("is_grouped", [False, True])
async def test_a_task_whose_store_is_lost_has_not_failed(
    scenario: SupervisorScenario, *, is_grouped: bool
) -> None:
    """It ends, uncounted and without a restart; a group with any other failure is restarted."""
    lost = BusLostError("another daemon has it")
    worker = Worker(ExceptionGroup("tasks", [lost]) if is_grouped else lost)
    await (await scenario.start("outputs", worker))
    assert (worker.starts, scenario.failures("outputs")) == (1, 0)
    assert scenario.supervisor.status()["outputs"].state is TaskState.DONE

    other = Worker(ExceptionGroup("tasks", [lost, ValueError("odd")]))
    await scenario.start("poller", other)
    assert scenario.failures("poller") == 1
    assert scenario.supervisor.status()["poller"].state is TaskState.FAILED


async def test_a_task_that_the_store_refuses_for_long_is_shown_as_failed(
    scenario: SupervisorScenario,
) -> None:
    """It may be the only one that is refused; it is still not counted, and begins again."""
    worker = Worker(*([BusUnavailableError("no answer within 10 s")] * 6))
    await scenario.start("poller", worker)
    await scenario.clock.advance(24.9)
    assert scenario.supervisor.status()["poller"].state is TaskState.RUNNING
    await scenario.clock.advance(0.2)
    status = scenario.supervisor.status()["poller"]
    assert (status.state, status.reason) == (
        TaskState.FAILED,
        "BusUnavailableError: no answer within 10 s",
    )
    await scenario.clock.advance(10)
    assert scenario.supervisor.status()["poller"].state is TaskState.RUNNING
    assert (worker.starts, scenario.failures("poller")) == (7, 0)


async def test_a_defect_after_an_outage_of_the_store_waits_as_a_first_one(
    scenario: SupervisorScenario,
) -> None:
    """The waits for the store and those after a defect grow by themselves."""
    worker = Worker(*([BusUnavailableError("away")] * 4), RuntimeError("defect"))
    with structlog.testing.capture_logs() as logged:
        await scenario.start("poller", worker)
        await scenario.clock.advance(30)
    waits = [line["wait_seconds"] for line in logged if "wait_seconds" in line]
    assert waits == [1, 2, 4, 8, 1]


@pytest.mark.parametrize("is_grouped", [False, True])
async def test_a_task_whose_store_does_not_answer_has_not_failed(
    scenario: SupervisorScenario, *, is_grouped: bool
) -> None:
    """It begins again after growing waits, uncounted and not failed, with one line for each."""
    gone = BusUnavailableError("the disk is full")
    failure = ExceptionGroup("tasks", [gone]) if is_grouped else gone
    worker = Worker(*([failure] * 5))
    with structlog.testing.capture_logs() as logged:
        await scenario.start("alerting", worker)
        assert scenario.supervisor.status()["alerting"].state is TaskState.RUNNING
        await scenario.clock.advance(600)
    assert (worker.starts, scenario.failures("alerting")) == (6, 0)
    assert [line["event"] for line in logged] == ["task waits for the store"] * 5
    assert [line["wait_seconds"] for line in logged] == [1, 2, 4, 8, 10]
    assert {line["reason"] for line in logged} == {"the disk is full"}
