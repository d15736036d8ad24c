"""``track`` while the workspace is unreachable: the request is kept until it is answered."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.hosted.tracked_runs import TOPIC, TrackedRuns
from monitor.bus.contract import Change, StateEntry
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.catalogue.operations import Edition
from monitor.cli.demo_broker import free_port
from monitor.cli.main import main
from monitor.model.clock import Clock
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.refusing_store import RefusingStore
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario


class Stores:
    """The stores that daemons of a test have opened, the newest last."""

    def __init__(self) -> None:
        self._opened: list[RefusingStore] = []

    async def open(
        self, settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, **_: object
    ) -> SqliteStore:
        store = await RefusingStore.opened(settings, clock=clock, registry=registry)
        self._opened.append(store)
        return SqliteStore(store, clock=clock)

    @property
    def newest(self) -> RefusingStore:
        return self._opened[-1]

    async def requests(self) -> set[str]:
        """Return the requests that the newest store holds."""
        return set(await self.newest.state_entries("acme", TOPIC))


def hanging_job_group(sandbox: Sandbox) -> str:
    """Start a job group that does not end, and return its id."""
    recipe = next(
        recipe for recipe in sandbox.world.recipes.live() if sandbox.world.outputs_of(recipe.id)
    )
    sandbox.engine.order(Order(outcome=Outcome.HANG))
    return str(sandbox.engine.start_job_group(recipe, by=recipe.creator_id).id)


async def is_known(face: Face, run_id: str) -> bool:
    rows = (await face.json("/api/v1/runs"))["data"]
    return any(row["id"] == run_id for row in rows)


async def test_a_request_survives_a_restart_until_the_workspace_answers(tmp_path: Path) -> None:
    """A run that exists is followed in the end, one that does not is given up; both are removed.

    In this edition no list shows runs, so nothing but the request leads to them.
    """
    sandbox, port, stores = fixture.sandbox(Edition.LE), free_port(), Stores()
    settings = fixture.configuration(
        tmp_path, fixture.workspace_configuration(sandbox, f"http://127.0.0.1:{port}")
    )
    run_id = hanging_job_group(sandbox)

    async def is_empty() -> bool:
        return not await stores.requests()

    run_ids = (run_id, "999999", run_id)
    async with fixture.daemon(settings, open_store=stores.open) as face:
        answers = [
            await face.post("/api/v1/track", kind="job_group", id=run_id_sent)
            for run_id_sent in run_ids
        ]
        assert [answer["detail"] for answer in answers] == [
            f"acme:job_group:{run_id_sent} cannot be asked for now; the request is stored, and "
            "repeated until the workspace answers"
            for run_id_sent in run_ids
        ]
        assert await stores.requests() == {f"job_group/{run_id}", "job_group/999999"}

    async with (
        fixture.started(sandbox, port=port),
        fixture.daemon(settings, open_store=stores.open) as face,
    ):
        await eventually(lambda: is_known(face, run_id), why="the run is not followed")
        await eventually(is_empty, why="a request is still kept")


async def test_a_request_that_cannot_be_stored_is_not_promised(tmp_path: Path) -> None:
    """While the store refuses, the API answers 503; afterwards it accepts the same request."""
    stores = Stores()
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"))
    async with fixture.daemon(settings, open_store=stores.open) as face:
        stores.newest.refuse_to_all("commit")
        refused = await face.post("/api/v1/track", kind="job_group", id="7")
        assert (refused["status"], refused["detail"]) == (503, "commit is refused")
        stores.newest.refuse_to_all()
        accepted = await face.post("/api/v1/track", kind="job_group", id="7")
        assert "the request is stored" in accepted["detail"]
        assert await stores.requests() == {"job_group/7"}


async def test_a_request_that_waits_can_be_dropped(tmp_path: Path) -> None:
    """Durably, and only one that waits: what was read is followed to its end."""
    stores = Stores()
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"))
    async with fixture.daemon(settings, open_store=stores.open) as face:
        for run_id in ("7", "8"):
            await face.post("/api/v1/track", kind="job_group", id=run_id)
        dropped = await face.post("/api/v1/untrack", kind="job_group", id="7")
        assert dropped["detail"] == "acme:job_group:7 is not asked for any more"
        assert await stores.requests() == {"job_group/8"}
        again = await face.post("/api/v1/untrack", kind="job_group", id="7")
        assert (again["status"], again["detail"]) == (404, "acme:job_group:7 is not asked for")


async def test_a_run_that_was_read_is_not_dropped(tmp_path: Path) -> None:
    """Its end would be missed: the answer says so."""
    sandbox = fixture.sandbox(Edition.LE)
    run_id = hanging_job_group(sandbox)
    async with (
        fixture.started(sandbox) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(sandbox, url))
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        await face.post("/api/v1/track", kind="job_group", id=run_id)
        await eventually(lambda: is_known(face, run_id), why="the run is not followed")
        refused = await face.post("/api/v1/untrack", kind="job_group", id=run_id)
        assert refused["status"] == 409
        assert refused["detail"] == f"acme:job_group:{run_id} was read, and is followed to its end"


async def test_a_run_that_the_configuration_names_is_not_dropped(tmp_path: Path) -> None:
    """The next start would ask for it again: the answer says where it is named."""
    unreachable = fixture.unreachable("acme")
    poll = msgspec.structs.replace(unreachable.poll, follow=("job_group/7",))
    followed = msgspec.structs.replace(unreachable, poll=poll)
    async with fixture.daemon(fixture.configuration(tmp_path, followed)) as face:
        for _ in range(2):
            refused = await face.post("/api/v1/untrack", kind="job_group", id="7")
            assert (refused["status"], refused["detail"]) == (
                409,
                "acme:job_group:7 is named by `follow` in the configuration: remove it there",
            )


async def test_a_set_clock_drops_no_request(tmp_path: Path) -> None:
    """A request is given up a week after this life has first asked, whatever our clock shows."""
    clock = ManualClock()
    scenario = Scenario(
        clock=clock, folder=tmp_path, url="http://127.0.0.1:9", settings=PollSettings()
    )
    await scenario.open()
    tracked = TrackedRuns(
        NAME, poller=scenario.poller(), observer=scenario.observer, bus=scenario.bus, clock=clock
    )
    waiting, read = (RunKey(NAME, RunKind.JOB_GROUP, run_id) for run_id in ("7", "8"))
    assert [await tracked.track(key) for key in (waiting, read)] == [None, None]

    async def are_kept(*run_ids: str) -> bool:
        await clock.advance(300)
        kept = await scenario.bus.state_entries(NAME, TOPIC)
        return set(kept) == {f"job_group/{run_id}" for run_id in run_ids}

    async with asyncio.TaskGroup() as group:
        repeating = group.create_task(tracked.run(), name="track requests")
        clock.set_wall(clock.now() + timedelta(days=40))
        await scenario.observer.observe(
            [Observation(key=read, source=Source.POLL, observed_at=clock.now())]
        )
        await eventually(lambda: are_kept("7"), why="what was read is still asked for")
        clock.set_wall(clock.now() - timedelta(days=40))
        await clock.advance(timedelta(days=7).total_seconds())
        await eventually(are_kept, why="asked for more than a week")
        repeating.cancel()
    await scenario.close()


async def test_a_stored_request_that_names_no_run_is_dropped(tmp_path: Path) -> None:
    """As an earlier version kept it: it is removed, not asked for week after week."""
    stores, settings = Stores(), fixture.configuration(tmp_path, fixture.unreachable("acme"))
    async with fixture.daemon(settings, open_store=stores.open) as face:
        entry = StateEntry(
            workspace="acme", topic=TOPIC, key="flow_run/abc", value=b'"2026-11-21T10:00:00Z"'
        )
        await stores.newest.commit(Change(state_entries=(entry,)), timeout_seconds=5)
        await face.post("/api/v1/track", kind="job_group", id="7")
        refused = await face.post("/api/v1/untrack", kind="job_group", id="8")
        assert refused["status"] == 404
        assert await stores.requests() == {"job_group/7"}


@pytest.mark.parametrize("run_id", ["../flows/1", "1/2", "a b", "", "x" * 65, "abc", "007", "-1"])
async def test_a_text_that_is_no_id_of_a_run_is_refused(tmp_path: Path, run_id: str) -> None:
    """The API answers 400 and keeps nothing; the command refuses without calling the daemon."""
    settings, stores = fixture.configuration(tmp_path, fixture.unreachable("acme")), Stores()
    async with (
        fixture.daemon(settings, open_store=stores.open) as face,
        aiohttp.ClientSession() as session,
        session.post(
            f"{face.url}/api/v1/track", json={"kind": "job_group", "id": run_id}
        ) as response,
    ):
        assert response.status == 400
        assert "is not the id of a job_group" in (await response.json())["detail"]
        assert await stores.requests() == set()


def test_the_command_refuses_what_is_no_id(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with the value and what would fit, although there is no daemon."""
    assert main(["track", "job_group", "../flows/1", "-c", "/nowhere/monitor.toml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(
        "Error: Invalid value for ID: '../flows/1' is not the id of a job_group; "
        "name it as the workspace does: it is a number, as 7827359\n"
    )
    for command, kind in (("track", "flow_run"), ("untrack", "job_group")):
        assert main([command, kind, "abc", "-c", "/nowhere/monitor.toml"]) == 2
        assert f"'abc' is not the id of a {kind}" in capsys.readouterr().err
    assert main(["track", "flow", "7", "-c", "/nowhere/monitor.toml"]) == 2
    assert "'flow_run', 'job_group', 'plan_run'" in capsys.readouterr().err
