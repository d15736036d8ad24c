"""The task of a flow has a secret of its own, which opens callbacks about this flow only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.listener import FLOW_HEADER, CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.callbacks.task_secrets import task_secret, task_signing_secret
from monitor.model.observations import Observation
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunState
from monitor.model.secrets import Secret
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from tests.app.refusing_store import RefusingStore
from tests.callbacks.conftest import (
    SECRET,
    Answer,
    ListenerScenario,
    job_group,
    polled,
    received_by,
)
from tests.clocks import ManualClock

FORMER = "the secret that webhook tasks had before"
SECONDS = 3_600.0
A, B = "7", "70"


@pytest.fixture
def callback_settings(clock: ManualClock) -> CallbackSettings:
    return CallbackSettings(
        secret=Secret(SECRET),
        former_secret=Secret(FORMER),
        former_secret_expires_at=clock.now() + timedelta(seconds=SECONDS),
    )


def derived(flow_id: str, *, secret: str = SECRET, workspace: str = "acme") -> str:
    """Return the secret of a flow's task, by the library's plain way."""
    purpose = f"callbacks of a task\0{workspace}\0{flow_id}"
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


async def call(
    scenario: ListenerScenario,
    number: int,
    *,
    flow: str | None,
    secret: str | None,
    body: bytes | None = None,
    path: str = "/hooks/acme",
) -> Answer:
    headers = {} if flow is None else {FLOW_HEADER: flow}
    sent = body or b'{"job_id":"%d","job_status":"Complete"}' % number
    return await scenario.post(sent, secret=secret, headers=headers, path=path)


def test_what_is_derived_is_another_for_each_purpose() -> None:
    """Flow, workspace, secret and use each change it, and none of them can be read from it."""
    secret = Secret(SECRET)
    made = [
        task_secret(secret, workspace="acme", flow_id=A),
        task_secret(secret, workspace="acme", flow_id=B),
        task_secret(secret, workspace="north", flow_id=A),
        task_secret(Secret(FORMER), workspace="acme", flow_id=A),
        task_signing_secret(secret, workspace="acme", flow_id=A),
    ]
    assert made[0].reveal() == derived(A)
    assert len({*made, secret, Secret(FORMER)}) == len(made) + 2


async def test_the_secret_of_a_task_opens_its_own_flow(scenario: ListenerScenario) -> None:
    """It is right beside the name of its flow, and nowhere else; the shared one is right alone."""
    answers = [
        await call(scenario, 1, flow=A, secret=derived(A)),
        await call(scenario, 2, flow=None, secret=SECRET),
    ]
    assert [answer.status for answer in answers] == [204, 204]
    wrong = [
        await call(scenario, 3, flow=B, secret=derived(A)),
        await call(scenario, 4, flow="", secret=derived(A)),
        await call(scenario, 5, flow=None, secret=derived(A)),
        await call(scenario, 6, flow=None, secret=None, path=f"/hooks/acme/{derived(A)}"),
        await call(scenario, 7, flow=A, secret=SECRET),
        await call(scenario, 8, flow=A, secret=derived(A, workspace="north")),
        await call(scenario, 9, flow=A, secret=None),
    ]
    assert {answer.status for answer in wrong} == {404}
    assert scenario.count("wrong_secret") == len(wrong)
    assert scenario.count("accepted") == 2


async def test_the_former_secret_of_a_task_ends_with_the_former_secret(
    scenario: ListenerScenario, clock: ManualClock
) -> None:
    """A task that was not moved yet goes on calling until the end of the former secret."""
    former = derived(A, secret=FORMER)
    await clock.advance(SECONDS - 1)
    assert (await call(scenario, 1, flow=A, secret=former)).status == 204
    await clock.advance(1)
    assert (await call(scenario, 2, flow=A, secret=former)).status == 404
    assert (await call(scenario, 3, flow=A, secret=derived(A))).status == 204


@pytest.mark.parametrize(
    "body",
    [
        b'{"workspace":"acme","flow_id":"70","task":"k","job_id":"9","job_status":"Complete"}',
        b'{"job_id":"9","job_status":"Complete","flowId":70}',
        b'{"plan_run_id":"9"}',
        b'{"flow_run_id":"9","status":"Complete"}',
    ],
)
async def test_what_a_task_of_a_flow_never_sends_is_refused(
    scenario: ListenerScenario, bus: EventBus, body: bytes
) -> None:
    """Another flow's id, or a run that no flow's task reports: nothing of it is stored."""
    refused = await call(scenario, 9, flow=A, secret=derived(A), body=body)
    assert (refused.status, refused.body) == (403, b"")
    assert scenario.count("other_flow") == 1
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    assert (await call(scenario, 9, flow=None, secret=SECRET, body=body)).status == 204


@dataclass
class Workspace:
    """Shows of each run the flow that a test sets, once it is read by its id."""

    observer: Observer
    clock: ManualClock
    flows: dict[str, str | None] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def wake(self) -> None:
        pass

    def must_wait(self, observation: Observation, known: RunState) -> bool:  # noqa: ARG002
        return False

    def complete_later(self, observations: Sequence[Observation]) -> None:
        pass

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        return list(observations)

    async def confirm(self, key: RunKey) -> bool | None:
        self.read.append(key.id)
        if key.id not in self.flows:
            return False
        await self.poll(int(key.id))
        return True

    async def poll(self, number: int, word: str = "InProgress") -> None:
        flow = self.flows[str(number)]
        pipeline = None if flow is None else Pipeline(kind=PipelineKind.FLOW, id=flow)
        run = msgspec.structs.replace(polled(number, word, self.clock), pipeline=pipeline)
        await self.observer.observe([run])


@dataclass
class TaskScenario:
    """A listener with all that is after it, and the tasks of two flows."""

    sender: ListenerScenario
    bus: RefusingStore
    clock: ManualClock
    workspace: Workspace
    reader: InboxReader

    async def call(self, number: int, *, flow: str, word: str = "Complete") -> None:
        body = b'{"job_id":"%d","job_status":"%s"}' % (number, word.encode())
        answer = await call(self.sender, number, flow=flow, secret=derived(flow), body=body)
        assert answer.status == 204

    async def ask(self) -> None:
        """Let so much time pass that a run which is still unknown is read by its id."""
        await self.reader.take_all()
        await self.clock.advance(3)
        await self.reader.ask_one()

    async def end_of(self, number: int) -> list[str]:
        events = [event.event for event in await self.bus.events(after=0, limit=1_000)]
        words = (event.id.removeprefix(f"acme:job_group:{number}:") for event in events)
        return [word for word in words if word in ("succeeded", "failed")]

    async def run(self, number: int) -> RunState:
        key = job_group(number)
        return (await self.bus.runs([key]))[key]

    async def waiting(self) -> int:
        return len((await self.bus.inbox("acme", limit=100)).callbacks)

    def count(self, outcome: str) -> float:
        labels = {"source": "callback", "outcome": outcome}
        name = "dataprep_monitor_observations_total"
        return self.sender.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def tasks(
    bus: RefusingStore,
    clock: ManualClock,
    registry: CollectorRegistry,
    observer: Observer,
    live_state: LiveState,
    callback_settings: CallbackSettings,
) -> AsyncIterator[TaskScenario]:
    workspace = Workspace(observer, clock)
    reader = InboxReader(
        "acme",
        settings=callback_settings,
        bus=bus,
        observer=observer,
        clock=clock,
        follower=workspace,
    )
    intake = CallbackIntake(
        "acme", observer=observer, view=live_state.view, follower=workspace, inbox=reader
    )
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
        workspaces={"acme": callback_settings},
        receive=received_by(intake, bus),
        clock=clock,
        registry=registry,
    )
    port = await listener.start()
    async with aiohttp.ClientSession() as session:
        sender = ListenerScenario(port=port, session=session, registry=registry)
        yield TaskScenario(sender, bus, clock, workspace, reader)
    await listener.stop()


@pytest.mark.parametrize("word", ["Complete", "Failed"])
@pytest.mark.parametrize("is_over", [False, True])
async def test_a_leaked_task_says_nothing_about_another_flow(
    tasks: TaskScenario, word: str, is_over: object
) -> None:
    """The run stays as it was, no event is made, and the call counts as no callback of the run."""
    tasks.workspace.flows["9"] = B
    await tasks.workspace.poll(9)
    if is_over:
        await tasks.workspace.poll(9, "Complete")
    before = await tasks.run(9)
    await tasks.call(9, flow=A, word=word)
    await tasks.reader.take_all()

    assert await tasks.run(9) == before
    assert not before.is_called_back
    assert await tasks.end_of(9) == ["succeeded"] * bool(is_over)
    assert (await tasks.waiting(), tasks.count("other_flow")) == (0, 1)


async def test_a_leaked_task_hides_no_callback_of_another_flow(tasks: TaskScenario) -> None:
    """Ids that are called before the run exists are no reason to take its own for a repetition."""
    await tasks.call(9, flow=A)
    tasks.workspace.flows["9"] = B
    await tasks.workspace.poll(9)
    await tasks.ask()
    assert (await tasks.end_of(9), await tasks.waiting()) == ([], 0)
    await tasks.call(9, flow=B)

    assert await tasks.end_of(9) == ["succeeded"]
    assert tasks.sender.count("duplicate") == 0
    await tasks.call(9, flow=B)
    assert tasks.sender.count("duplicate") == 1


@pytest.mark.parametrize(("flow", "ends"), [(A, ["failed"]), (B, [])])
async def test_while_the_flow_of_a_run_is_unknown_a_task_waits(
    tasks: TaskScenario, flow: str, ends: list[str]
) -> None:
    """It names no flow to a run; once the workspace shows it, the call is believed or is not."""
    tasks.workspace.flows["9"] = None
    await tasks.workspace.poll(9)
    await tasks.call(9, flow=A, word="Failed")
    await tasks.reader.take_all()
    assert (await tasks.end_of(9), await tasks.waiting()) == ([], 1)
    assert (await tasks.run(9)).pipeline is None
    tasks.workspace.flows["9"] = flow
    await tasks.ask()

    assert (await tasks.end_of(9), await tasks.waiting()) == (ends, 0)
    pipeline = (await tasks.run(9)).pipeline
    assert pipeline is not None
    assert pipeline.id == flow
    assert tasks.count("other_flow") == (flow == B)


async def test_a_run_without_a_flow_is_read_once(tasks: TaskScenario) -> None:
    """The read tells what the callback could, so the inbox does not fill with such calls."""
    tasks.workspace.flows["9"] = None
    await tasks.workspace.poll(9)
    await tasks.call(9, flow=A)
    await tasks.ask()

    assert (await tasks.waiting(), tasks.workspace.read) == (0, ["9"])
    assert tasks.count("unconfirmed") == 1
