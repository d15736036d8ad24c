"""Callbacks over HTTP with the right secret: true, forged, contradicting and useless ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.runs import Source
from monitor.model.secrets import Secret
from monitor.sandbox.running.engine import Outcome
from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.records.runs import SAMPLING_LIKE
from tests.callbacks.conftest import received_by
from tests.decisions.followed import ALL, Followed, following
from tests.polling.conftest import NAME, asleep

SETTINGS = CallbackSettings(secret=Secret("known to the workspace alone"))


class Door:
    """The listener of a followed workspace, and the reader behind it, which the test moves."""

    def __init__(self, it: Followed) -> None:
        self._it = it
        scenario = it.scenario
        self.reader = InboxReader(
            NAME,
            settings=SETTINGS,
            bus=scenario.bus,
            observer=scenario.observer,
            clock=scenario.clock,
            follower=it.poller,
        )
        intake = CallbackIntake(
            NAME,
            observer=scenario.observer,
            view=scenario.live_state.view,
            follower=it.poller,
            inbox=self.reader,
        )
        self.listener = CallbackListener(
            settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
            workspaces={NAME: SETTINGS},
            receive=received_by(intake, scenario.bus),
            clock=scenario.clock,
            registry=scenario.registry,
        )
        self.port = 0

    async def send(self, run_id: int, status: str) -> int:
        """Send one callback, let the reader process it, and return the answer's status."""
        url = f"http://127.0.0.1:{self.port}/hooks/{NAME}"
        body = msgspec.json.encode({"job_id": str(run_id), "status": status})
        headers = {
            "X-Monitor-Secret": "known to the workspace alone",
            "Content-Type": "application/json",
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers) as answer,
        ):
            code = answer.status
        await self.reader.take_all()
        return code

    async def wait(self, seconds: float) -> None:
        """Let time pass in which polls continue and unknown runs are read by id."""
        while seconds > 0:
            await self._it.pass_time(10)
            await self.reader.take_all()
            while await self.reader.ask_one():
                pass
            seconds -= 10

    async def waiting(self) -> int:
        return len((await self._it.scenario.bus.inbox(NAME, limit=1_000)).callbacks)


@contextlib.asynccontextmanager
async def opened(it: Followed) -> AsyncIterator[Door]:
    door = Door(it)
    door.port = await door.listener.start()
    try:
        yield door
    finally:
        await door.listener.stop()


async def test_a_forged_run_id(tmp_path: Path) -> None:
    """A callback with an id that the workspace denies gets 204, one read and no run.

    A monitor that believes every callback alarms about runs that never were.
    """
    async with following(tmp_path) as it, opened(it) as door:
        requests: list[str] = []
        it.sandbox.on_request(lambda operation_id, _: requests.append(operation_id))
        answers = [await door.send(number, "Failed") for number in (90_000_001, 90_000_002)]
        assert answers == [204, 204]
        assert await it.all_transitions() == []
        await door.wait(60)

        assert await it.all_transitions() == []
        assert await door.waiting() == 0
        assert requests.count("getJobGroup") == 2
        labels = {"source": "callback", "outcome": "unconfirmed"}
        assert it.scenario.sample("dataprep_monitor_observations_total", **labels) == 2


async def test_a_callback_that_is_earlier_than_every_poll(tmp_path: Path) -> None:
    """A run that no list shows yet is published as soon as the workspace confirms it by its id.

    Dropped because it is unknown, a true callback would be lost.
    """
    options = WorldOptions(late_rows=1.0, late_seconds=4_000.0)
    async with following(tmp_path, options=options) as it, opened(it) as door:
        group = it.run_job_group(Outcome.FAILED)
        await it.pass_time(30)
        assert await door.send(group.id, "Failed") == 204
        assert await it.transitions(group.id) == []
        await door.wait(30)

        assert await it.transitions(group.id) == ["queued", "started", "failed"]
        assert await door.waiting() == 0


@pytest.mark.parametrize(
    ("reported", "claimed", "true"),
    [("Failed", "failed", "succeeded"), ("Complete", "succeeded", "failed")],
)
async def test_a_callback_that_lies(tmp_path: Path, reported: str, claimed: str, true: str) -> None:
    """When the workspace reports another end than a callback did, the true end follows, once.

    A sender with the secret must not hide a failure for good.
    """
    truth = Outcome.COMPLETE if reported == "Failed" else Outcome.FAILED
    async with following(tmp_path) as it, opened(it) as door:
        group = it.run_job_group(truth, work_seconds=120)
        await it.pass_time(45)
        assert await door.send(group.id, reported) == 204
        assert await it.transitions(group.id) == ["queued", "started", claimed]
        await it.pass_time(600)
        assert await door.send(group.id, str(group.status)) == 204
        await it.pass_time(60)

        history = ["queued", "started", claimed, "corrected", true]
        assert await it.transitions(group.id) == history
        observed = [event.observed_by for event in await it.events(group.id)]
        assert observed[2] is Source.CALLBACK
        assert Source.CALLBACK not in observed[3:]
        assert it.scenario.sample("dataprep_monitor_contradictions_total", workspace=NAME) == 0


@pytest.mark.parametrize(("reported", "first"), [("Failed", "succeeded"), ("Complete", "failed")])
async def test_a_contradiction(tmp_path: Path, reported: str, first: str) -> None:
    """When a callback names another end than the workspace has shown, the first stands, once.

    A second end would page a person twice for one run, or revoke what was acted upon.
    """
    truth = Outcome.COMPLETE if reported == "Failed" else Outcome.FAILED
    async with following(tmp_path) as it, opened(it) as door:
        group = it.run_job_group(truth, work_seconds=30)
        await it.pass_time(120)
        assert await it.transitions(group.id) == ["queued", "started", first]
        for _ in range(2):
            assert await door.send(group.id, reported) == 204
        await it.pass_time(60)

        assert await it.transitions(group.id) == ["queued", "started", first]
        assert it.scenario.sample("dataprep_monitor_contradictions_total", workspace=NAME) == 1


@pytest.mark.parametrize("rows", ["with_flow", "bare"])
async def test_a_sample_that_a_callback_names(tmp_path: Path, rows: str) -> None:
    """A sample or refresh becomes no run by a callback either, and waits for nothing.

    Confirming that the id exists is not enough: samples exist.
    """
    options = WorldOptions(library_rows=rows)  # type: ignore[arg-type]  # one of its words
    async with following(tmp_path, options=options) as it, opened(it) as door:
        samples = [it.run_job_group(ran_for=ran_for) for ran_for in sorted(SAMPLING_LIKE)]
        await it.world_clock.advance(30)
        for sample in samples:
            assert await door.send(sample.id, "Complete") == 204
        await door.wait(120)

        assert await it.all_transitions() == []
        assert await door.waiting() == 0


async def test_a_burst_of_callbacks(tmp_path: Path) -> None:
    """Fifty ends within a second are published at once and cost one poll, not fifty.

    A read for each callback would spend the budget of half a minute.
    """
    async with following(tmp_path) as it, opened(it) as door:
        groups = it.run_job_groups(50, work_seconds=600)
        await it.pass_time(30)
        requests: list[str] = []
        it.on_list(lambda query: requests.append(query.get("offset", "0")))
        for group in groups:
            assert await door.send(group.id, "Complete") == 204
        await it.clock.advance(0.5)
        await asleep(it.clock)

        assert [await it.transitions(group.id) for group in groups] == [ALL] * 50
        assert len(requests) <= 1


async def test_without_the_secret_nothing_is_believed(tmp_path: Path) -> None:
    """A true statement about a run that exists is refused when the secret is not the right one."""
    async with following(tmp_path) as it, opened(it) as door:
        group = it.run_job_group(work_seconds=600)
        await it.pass_time(30)
        url = f"http://127.0.0.1:{door.port}/hooks/{NAME}/known-to-everybody"
        body = msgspec.json.encode({"job_id": str(group.id), "status": "Failed"})
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer,
        ):
            assert answer.status == 404
        await door.wait(30)

        assert await it.transitions(group.id) == ["queued", "started"]
