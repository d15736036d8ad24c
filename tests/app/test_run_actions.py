"""Actions of users on runs, through a whole daemon against workspaces of several editions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.app.hosted.run_actions import RunActions
from monitor.app.hosted.tracked_runs import TrackedRuns
from monitor.catalogue.operations import Edition
from monitor.model.actions import Cancel
from monitor.model.errors import ConfigurationError, WorkspaceUnreachableError
from monitor.model.runs import RunKind
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.runs import RanFrom
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import ManualClock
from tests.polling.conftest import NAME
from tests.polling.conftest import Scenario as Followed

RERUN, CANCEL = "/api/v1/actions/rerun", "/api/v1/actions/cancel"
EXECUTION = "0b7c2f7e-0000-4000-8000-00000000000"  # and a digit


class Scenario:
    """A workspace in which nothing runs by itself, and a daemon that follows it."""

    def __init__(self, sandbox: Sandbox, face: Face) -> None:
        self.sandbox = sandbox
        self.face = face

    def start(self, kind: str, outcome: Outcome = Outcome.COMPLETE) -> str:
        """Start a run of that kind, and return its id."""
        world, engine = self.sandbox.world, self.sandbox.engine
        recipe = next(each for each in world.recipes.live() if world.outputs_of(each.id))
        by = recipe.creator_id
        engine.order(Order(count=20, outcome=outcome))
        if kind == "job_group":
            return str(engine.start_job_group(recipe, by=by).id)
        if kind == "flow_run":
            flow = world.flows.get(recipe.flow_id)
            assert flow is not None
            return str(engine.start_flow_run(flow, by=by, ran_from=RanFrom.UI).id)
        plan = next(iter(world.plans.live()))
        return str(engine.start_plan_run(plan, by=plan.creator_id, ran_from=RanFrom.UI).id)

    def count(self, kind: str) -> int:
        """Return how many runs of that kind the workspace has."""
        world = self.sandbox.world
        if kind == "job_group":
            return len(list(world.job_groups.live()))
        return len(list((world.flow_runs if kind == "flow_run" else world.plan_runs).live()))

    async def status(self, kind: str, run_id: str) -> str | None:
        run = await self.face.json(f"/api/v1/runs/acme/{kind}/{run_id}")
        return run["run"]["status"] if "run" in run else None

    async def is_known(self, kind: str, run_id: str, *statuses: str) -> None:
        """Track a run, and return once it is known here with one of the statuses."""
        await self.face.post("/api/v1/track", kind=kind, id=run_id)

        async def has_come() -> bool:
            return await self.status(kind, run_id) in statuses

        await eventually(has_come, why=f"{kind} {run_id} is not {statuses}")

    async def audit(self) -> list[dict[str, Any]]:
        """Return the lines about actions, the newest first."""
        lines = (await self.face.json("/api/v1/audit"))["data"]
        return [line for line in lines if line["what"] in ("rerun", "cancel")]


@contextlib.asynccontextmanager
async def scenario(
    folder: Path, edition: Edition = Edition.RL, *, actions: bool = True
) -> AsyncIterator[Scenario]:
    sandbox = fixture.sandbox(edition)
    async with fixture.started(sandbox) as url:
        acme = fixture.workspace_configuration(sandbox, url)
        edited = msgspec.structs.replace(acme.workspace, edition=edition)
        settings = fixture.configuration(folder, msgspec.structs.replace(acme, workspace=edited))
        server = ServerSettings(listen="127.0.0.1:0", actions=actions)
        settings = msgspec.structs.replace(settings, server=server)
        async with fixture.daemon(settings) as face:
            yield Scenario(sandbox, face)


@pytest.mark.parametrize("kind", ["flow_run", "job_group", "plan_run"])
async def test_a_run_is_run_again_once_however_often_it_is_asked_for(
    tmp_path: Path, kind: str
) -> None:
    """Raced and replayed with one execution id: one new run, one answer, followed at once."""
    async with scenario(tmp_path) as acme:
        run_id = acme.start(kind)
        await acme.is_known(kind, run_id, "succeeded")
        before, wanted = acme.count(kind), {"kind": kind, "id": run_id}
        raced = await asyncio.gather(
            *(acme.face.post(RERUN, **wanted, execution_id=f"{EXECUTION}1") for _ in range(3))
        )
        replayed = await acme.face.post(RERUN, **wanted, execution_id=f"{EXECUTION}1")
        assert acme.count(kind) == before + 1
        assert [*raced[1:], replayed] == [raced[0]] * 3
        new = raced[0]["run"]
        assert (new["workspace"], new["kind"]) == ("acme", kind)
        assert new["id"] != run_id
        assert raced[0]["detail"].startswith(f"started acme:{kind}:{new['id']}: ")
        assert await acme.status(kind, new["id"]) is not None

        lines = await acme.audit()
        assert [line["result"] for line in lines] == ["done"] * 4
        assert lines[0]["request"]["execution_id"] == f"{EXECUTION}1"
        assert lines[0]["after"]["run"] == new
        other = await acme.face.post(RERUN, kind=kind, id=new["id"], execution_id=f"{EXECUTION}1")
        assert (other["status"], acme.count(kind)) == (409, before + 1)
        assert f"was used for acme:{kind}:{run_id}" in other["detail"]


@pytest.mark.parametrize("kind", ["flow_run", "job_group", "plan_run"])
async def test_a_run_is_canceled_and_one_that_has_ended_is_not(tmp_path: Path, kind: str) -> None:
    """An active run cannot be run again and can be canceled; then it is the other way round."""
    async with scenario(tmp_path) as acme:
        run_id = acme.start(kind, Outcome.HANG)
        await acme.is_known(kind, run_id, "pending", "running")
        wanted = {"kind": kind, "id": run_id}
        early = await acme.face.post(RERUN, **wanted, execution_id=f"{EXECUTION}2")
        assert early["status"] == 409
        assert "has not ended" in early["detail"]

        async def can_be_canceled() -> bool:
            # A plan run or flow run may have no job group yet.
            return "canceled" in (await acme.face.post(CANCEL, **wanted))["detail"]

        await eventually(can_be_canceled, why="it cannot be canceled")
        await acme.is_known(kind, run_id, "canceled")
        again = await acme.face.post(CANCEL, **wanted)
        assert (again["status"], again["detail"]) == (
            409,
            f"acme:{kind}:{run_id} has ended: canceled",
        )
        assert (await acme.audit())[0]["result"] == "refused"


async def test_a_daemon_that_was_restarted_starts_no_second_run(tmp_path: Path) -> None:
    """Its memory is lost, so the workspace recognises the execution id, and the answer says so."""
    sandbox = fixture.sandbox()
    server = ServerSettings(listen="127.0.0.1:0", actions=True)
    async with fixture.started(sandbox) as url:
        acme = fixture.workspace_configuration(sandbox, url)
        settings = fixture.configuration(tmp_path, acme)
        settings = msgspec.structs.replace(settings, server=server)
        async with fixture.daemon(settings) as face:
            before = Scenario(sandbox, face)
            run_id = before.start("job_group")
            await before.is_known("job_group", run_id, "succeeded")
            wanted = {"kind": "job_group", "id": run_id, "execution_id": f"{EXECUTION}6"}
            assert (await face.post(RERUN, **wanted))["run"] is not None
            count = before.count("job_group")
        async with fixture.daemon(settings) as face:
            again = await face.post(RERUN, **wanted)
            assert again["run"] is None
            assert "was used before" in again["detail"]
            assert Scenario(sandbox, face).count("job_group") == count


async def test_what_the_edition_lacks_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """Edition LE runs job groups and cannot cancel them; PC has no runs at all."""
    async with scenario(tmp_path, Edition.LE) as acme:
        run_id = acme.start("job_group")
        await acme.is_known("job_group", run_id, "succeeded")
        done = await acme.face.post(
            RERUN, kind="job_group", id=run_id, execution_id=f"{EXECUTION}3"
        )
        assert done["run"]["kind"] == "job_group"
        sent = await _sent(acme.face)
        assert any("runJobGroup" in line for line in sent)
        for path, kind, more in (
            (CANCEL, "job_group", {}),
            (CANCEL, "plan_run", {}),
            (RERUN, "flow_run", {"execution_id": f"{EXECUTION}4"}),
        ):
            refused = await acme.face.post(path, kind=kind, id=run_id, **more)
            assert refused["status"] == 409
            assert "is not part of edition LE" in refused["detail"]
        assert await _sent(acme.face) == sent


async def _sent(face: Face) -> list[str]:
    """Return the counts of the requests that change runs in the workspace."""
    metrics = await face.text("/metrics")
    return [
        line
        for line in metrics.splitlines()
        if "api_requests_total" in line and ("cancel" in line or "run" in line)
        if 'operation="get' not in line and 'operation="list' not in line
    ]


async def test_actions_are_off_unless_they_are_configured(tmp_path: Path) -> None:
    """Nothing is started and nothing canceled; the answer names the setting."""
    async with scenario(tmp_path, actions=False) as acme:
        run_id = acme.start("job_group")
        await acme.is_known("job_group", run_id, "succeeded")
        before = acme.count("job_group")
        rerun = await acme.face.post(
            RERUN, kind="job_group", id=run_id, execution_id=f"{EXECUTION}5"
        )
        cancel = await acme.face.post(CANCEL, kind="job_group", id=run_id)
        assert [rerun["status"], cancel["status"]] == [403, 403]
        assert "[server] actions = true" in rerun["detail"]
        assert acme.count("job_group") == before


@pytest.mark.parametrize("execution_id", ["", "short", "x" * 65, "a b" * 8, "é" * 16])
async def test_what_no_header_may_carry_is_no_execution_id(
    tmp_path: Path, execution_id: str
) -> None:
    """The request is refused with the name of the field, before a workspace is asked."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"))
    server = ServerSettings(listen="127.0.0.1:0", actions=True)
    async with fixture.daemon(msgspec.structs.replace(settings, server=server)) as face:
        refused = await face.post(RERUN, kind="job_group", id="7", execution_id=execution_id)
        assert refused["status"] == 400
        assert "execution_id" in refused["detail"]


async def test_an_action_that_was_held_back_is_not_done_any_more(tmp_path: Path) -> None:
    """A daemon that executes it too late sends nothing, and says until when it was wanted."""
    clock = ManualClock()
    followed = Followed(
        clock=clock, folder=tmp_path, url="http://127.0.0.1:9", settings=PollSettings()
    )
    await followed.open()
    actions = RunActions(
        NAME,
        client=followed.client,
        observer=followed.observer,
        tracked_runs=TrackedRuns(
            NAME,
            poller=followed.poller(),
            observer=followed.observer,
            bus=followed.bus,
            clock=clock,
        ),
        clock=clock,
    )
    wanted_until = clock.now()
    cancel = Cancel(kind=RunKind.JOB_GROUP, id="7")
    with pytest.raises(WorkspaceUnreachableError):
        await actions.act(cancel, not_after=wanted_until)
    clock.set_wall(wanted_until + timedelta(seconds=1))
    with pytest.raises(ConfigurationError, match="came later: nothing was sent; ask again"):
        await actions.act(cancel, not_after=wanted_until)
    await followed.close()
