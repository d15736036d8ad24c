"""Callbacks are observed as they arrive, all of a batch by one commit, or kept in the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, Received, StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.settings import CallbackSettings
from monitor.model.errors import BusUnavailableError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import OBSERVED_AT_ONCE, Observer
from monitor.tracking.settings import TrackingSettings
from tests.app.eventually import eventually
from tests.callbacks.conftest import job_group, polled, received_by
from tests.clocks import ManualClock


class HeldBus(SqliteBus):
    """A store whose next commits wait, and fail, as the test says."""

    may_commit: asyncio.Event
    is_full: bool

    @classmethod
    def around(cls, bus: SqliteBus) -> HeldBus:
        held = cls.__new__(cls)
        held.__dict__.update(bus.__dict__)
        held.may_commit = asyncio.Event()
        held.may_commit.set()
        held.is_full = False
        return held

    async def commit(
        self, change: Change, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> tuple[Received, ...]:
        await self.may_commit.wait()
        if self.is_full:
            raise BusUnavailableError("the disk is full")
        return await super().commit(
            change, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds
        )


@dataclass
class Follower:
    """A follower that waits for failures only, and counts what it is asked for."""

    later: list[str] = field(default_factory=list)
    woken: int = 0
    may_complete: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.woken += 1

    def must_wait(self, observation: Observation, known: RunState) -> bool:  # noqa: ARG002
        return observation.native_status == "Failed"

    def complete_later(self, observations: Sequence[Observation]) -> None:
        self.later += [observation.key.id for observation in observations]

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        await self.may_complete.wait()
        return list(observations)

    async def confirm(self, key: RunKey) -> bool | None:  # noqa: ARG002
        return None


class Scenario:
    """One workspace with its intake and its inbox, over a store that the test holds."""

    def __init__(self, bus: SqliteBus, clock: ManualClock, registry: CollectorRegistry) -> None:
        self.bus = HeldBus.around(bus)
        self.clock = clock
        self.registry = registry
        self.live_state = LiveState(["acme"])
        self.follower = Follower()
        self.follower.may_complete.set()
        self.observer = Observer(
            bus=self.bus,
            live_state=self.live_state,
            clock=clock,
            registry=registry,
            settings=TrackingSettings(),
        )
        self.reader = InboxReader(
            "acme",
            settings=CallbackSettings(),
            bus=self.bus,
            observer=self.observer,
            clock=clock,
            follower=self.follower,
        )
        self.intake = CallbackIntake(
            "acme",
            observer=self.observer,
            view=self.live_state.view,
            follower=self.follower,
            inbox=self.reader,
        )

    async def poll(self, *numbers: int, word: str = "InProgress") -> None:
        await self.observer.observe([polled(number, word, self.clock) for number in numbers])

    def callback(self, number: int, word: str = "Complete") -> StoredCallback:
        return StoredCallback(
            workspace="acme",
            kind=RunKind.JOB_GROUP,
            run_id=str(number),
            native_status=word,
            flow_id="11",
            received_at=self.clock.now(),
            fingerprint=f"job_group:{number}:{word.lower()}",
        )

    async def send(
        self, number: int, word: str = "Complete", *, timeout_seconds: float = 5.0
    ) -> Received:
        receive = received_by(self.intake, self.bus)
        received = await receive(
            self.callback(number, word), inbox_bound=100, timeout_seconds=timeout_seconds
        )
        await turns()  # in which it is followed up
        return received

    async def kept(self) -> list[str]:
        """Return the runs of the callbacks in the inbox."""
        waiting = await self.bus.inbox("acme", limit=1_000)
        return [callback.run_id for callback in waiting.callbacks]

    async def emitted(self) -> list[str]:
        return [event.event.id for event in await self.bus.events(after=0, limit=1_000)]

    @property
    def commits(self) -> float:
        name = "dataprep_monitor_commit_duration_seconds_count"
        return self.registry.get_sample_value(name) or 0.0


@pytest.fixture
def scenario(bus: SqliteBus, clock: ManualClock, registry: CollectorRegistry) -> Scenario:
    return Scenario(bus, clock, registry)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_known_run_takes_one_commit(scenario: Scenario) -> None:
    """Arrival, end and event are one commit, the inbox stays empty, records are read later."""
    await scenario.poll(9)
    before = scenario.commits

    assert await scenario.send(9) is Received.STORED
    assert scenario.commits == before + 1
    assert (await scenario.emitted())[-1] == "acme:job_group:9:succeeded"
    assert (await scenario.bus.inbox("acme", limit=10)).callbacks == ()
    assert scenario.follower.later == ["9"]
    assert scenario.follower.woken == 1


async def test_a_repetition_is_a_duplicate(scenario: Scenario) -> None:
    """The same report is stored once, and asks for no record again."""
    await scenario.poll(9)
    answers = [await scenario.send(9), await scenario.send(9)]

    assert answers == [Received.STORED, Received.DUPLICATE]
    assert scenario.follower.later == ["9"]
    assert await scenario.bus.receive(scenario.callback(9), inbox_bound=9, timeout_seconds=5) is (
        Received.DUPLICATE
    )


async def test_callbacks_that_arrive_during_a_commit_are_one_batch(scenario: Scenario) -> None:
    """Thirty callbacks that arrive while one is stored take one more commit together."""
    await scenario.poll(*range(40))
    before = scenario.commits
    scenario.bus.may_commit.clear()
    sending = [asyncio.create_task(scenario.send(0))]
    await turns()
    sending += [asyncio.create_task(scenario.send(number)) for number in range(1, 31)]
    await turns()
    scenario.bus.may_commit.set()

    assert await asyncio.gather(*sending) == [Received.STORED] * 31
    assert scenario.commits == before + 2


@pytest.mark.parametrize(
    ("number", "word"),
    [(666, "Complete"), (1, "Failed"), (3, "Complete")],
    ids=["unknown run", "waits for its reason", "has ended"],
)
async def test_waiting_callbacks_are_stored(scenario: Scenario, number: int, word: str) -> None:
    """One commit keeps it, nothing is emitted yet, and the reader of the inbox has it."""
    await scenario.poll(1, 2, 3)
    await scenario.poll(3, word="Complete")
    before, events = scenario.commits, await scenario.emitted()

    assert await scenario.send(number, word) is Received.STORED
    assert (scenario.commits, await scenario.emitted()) == (before + 1, events)
    assert await scenario.kept() == [str(number)]
    assert scenario.follower.woken == 1
    assert await scenario.send(number, word) is Received.DUPLICATE


async def test_a_callback_does_not_wait_for_another_that_waits(scenario: Scenario) -> None:
    """An end is emitted though an earlier callback of its run is in the inbox, and once."""
    await scenario.poll(1)
    await scenario.bus.receive(scenario.callback(1, "Running"), inbox_bound=9, timeout_seconds=5)
    assert await scenario.send(1) is Received.STORED
    emitted = await scenario.emitted()
    await scenario.reader.take_all()

    assert emitted[-1] == "acme:job_group:1:succeeded"
    assert await scenario.emitted() == emitted
    assert await scenario.kept() == []


async def test_callbacks_follow_the_commit_of_a_poll(scenario: Scenario) -> None:
    """Those that arrive while a poll's commit is under way are one batch after it."""
    await scenario.poll(1, 2, 3)
    scenario.bus.may_commit.clear()
    polling = asyncio.create_task(scenario.poll(4))
    await turns()
    sending = [asyncio.create_task(scenario.send(number)) for number in (1, 2, 3)]
    await turns()
    before = scenario.commits
    scenario.bus.may_commit.set()
    await polling

    assert await asyncio.gather(*sending) == [Received.STORED] * 3
    assert scenario.commits == before + 2
    assert await scenario.kept() == []


async def test_more_than_a_batch_is_stored_whole(scenario: Scenario) -> None:
    """A hundred and one callbacks at once take three commits, between which polls have a turn."""
    count = 2 * OBSERVED_AT_ONCE + 1
    await scenario.poll(*range(count))
    before = scenario.commits

    answers = await asyncio.gather(*(scenario.send(number) for number in range(count)))
    assert answers == [Received.STORED] * count
    assert scenario.commits == before + 3


async def test_a_commit_that_hangs_is_overload(scenario: Scenario) -> None:
    """A callback that waits for any commit has its time; nothing of it is held after that."""
    await scenario.poll(1)
    scenario.bus.may_commit.clear()
    polling = asyncio.create_task(scenario.poll(2))
    await turns()
    with pytest.raises(BusUnavailableError, match=r"not free within 0\.01 s"):
        await scenario.send(1, timeout_seconds=0.01)
    scenario.bus.may_commit.set()
    await polling
    await scenario.intake.close()
    assert "acme:job_group:1:succeeded" not in await scenario.emitted()


async def test_a_run_that_has_ended_meanwhile_is_answered(scenario: Scenario) -> None:
    """A poll that ends the run first makes the callback tell nothing new; it is stored."""
    await scenario.poll(1)
    polling = asyncio.create_task(scenario.poll(1, word="Complete"))
    await asyncio.sleep(0)
    answer = await scenario.send(1)
    await polling

    assert answer is Received.STORED
    assert (await scenario.emitted()).count("acme:job_group:1:succeeded") == 1


async def test_a_store_that_refuses_reaches_every_sender(scenario: Scenario) -> None:
    """A failed commit raises in each request of the batch and changes nothing."""
    await scenario.poll(1, 2)
    events = await scenario.emitted()
    scenario.bus.is_full = True
    answers = await asyncio.gather(scenario.send(1), scenario.send(2), return_exceptions=True)

    assert [type(answer) for answer in answers] == [BusUnavailableError] * 2
    assert await scenario.emitted() == events
    assert job_group(1) in scenario.live_state.active

    scenario.bus.is_full = False
    assert await scenario.send(1) is Received.STORED


async def test_a_sender_that_hangs_up_spoils_nothing(scenario: Scenario) -> None:
    """A callback whose request is cancelled is stored with the others of its batch."""
    await scenario.poll(1, 2)
    scenario.bus.may_commit.clear()
    sending = [asyncio.create_task(scenario.send(number)) for number in (1, 2)]
    await turns()
    sending[0].cancel()
    scenario.bus.may_commit.set()

    answers = await asyncio.gather(*sending, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1] is Received.STORED
    assert "acme:job_group:1:succeeded" in await scenario.emitted()


async def test_closing_finishes_what_has_arrived(scenario: Scenario) -> None:
    """A workspace that is left observes what it has taken, and keeps all later ones."""
    await scenario.poll(1, 2)
    scenario.bus.may_commit.clear()
    sending = asyncio.create_task(scenario.send(1))
    await turns()
    closing = asyncio.create_task(scenario.intake.close())
    await turns()
    assert await scenario.send(2) is Received.STORED
    assert await scenario.kept() == ["2"]
    assert not closing.done()
    scenario.bus.may_commit.set()
    await closing

    assert await sending is Received.STORED
    assert "acme:job_group:1:succeeded" in await scenario.emitted()


async def test_in_the_inbox_too_only_failures_wait(scenario: Scenario) -> None:
    """A success after a failure is emitted while that waits for its reason, in order per run."""
    await scenario.poll(1, 2)
    scenario.follower.may_complete.clear()
    for number, word in ((1, "Failed"), (2, "Complete"), (1, "Complete")):
        callback = scenario.callback(number, word)
        await scenario.bus.receive(callback, inbox_bound=9, timeout_seconds=5)
    taking = asyncio.create_task(scenario.reader.take_all())

    async def is_emitted(end: str) -> bool:
        return end in await scenario.emitted()

    await eventually(lambda: is_emitted("acme:job_group:2:succeeded"), why="the success waits")
    assert not await is_emitted("acme:job_group:1:failed")
    await eventually(lambda: scenario.follower.later == ["2"], why="nothing is to be read later")
    scenario.follower.may_complete.set()
    await taking

    assert await is_emitted("acme:job_group:1:failed")
    assert not await is_emitted("acme:job_group:1:succeeded")
    assert (await scenario.bus.inbox("acme", limit=9)).callbacks == ()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["poll", "send", "read"]),
        st.integers(1, 3),
        st.sampled_from(["InProgress", "Complete", "Failed"]),
    ),
    max_size=12,
)


@given(steps=STEPS)
async def test_any_mixture_emits_each_transition_once(
    steps: list[tuple[str, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever mixture of polls, callbacks and the inbox: no id twice, no run goes back."""
    clock, registry = ManualClock(), CollectorRegistry()
    path: Path = tmp_path_factory.mktemp("intake") / "state.db"
    bus = await SqliteBus.open(path, clock=clock, registry=registry)
    scenario = Scenario(bus, clock, registry)
    work: list[asyncio.Task[object]] = []
    for what, number, word in steps:
        if what == "poll":
            work.append(asyncio.create_task(scenario.poll(number, word=word)))
        elif what == "send":
            work.append(asyncio.create_task(scenario.send(number, word)))
        else:
            await scenario.reader.take_all()
        await asyncio.sleep(0)
    await asyncio.gather(*work)
    await scenario.reader.take_all()
    emitted = await scenario.emitted()
    await scenario.intake.close()
    await bus.close()

    assert len(emitted) == len(set(emitted))
    for number in (1, 2, 3):
        told = [id_.rpartition(":")[2] for id_ in emitted if f":{number}:" in id_]
        assert told[:2] == ["queued", "started"][: len(told)]
        ends = [what for what in told if what in ("succeeded", "failed")]
        # A second one only where the workspace corrects what a callback claimed.
        assert len(ends) <= 1 + told.count("corrected")
