"""A callback with the right secret that names an end which the run does not have."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import aiohttp

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.servers import free_port

_WORK_SECONDS = 1_200.0  # ten at the speed of the sandbox


def start_failing(sandbox: Sandbox) -> str:
    """Start a job group that will fail, and return its id."""
    recipe = next(
        recipe for recipe in sandbox.world.recipes.live() if sandbox.world.outputs_of(recipe.id)
    )
    sandbox.engine.order(Order(outcome=Outcome.FAILED, work_seconds=_WORK_SECONDS))
    return str(sandbox.engine.start_job_group(recipe, by=recipe.creator_id).id)


async def send_lie(port: int, run_id: str) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"http://127.0.0.1:{port}/hooks/acme",
            json={"job_id": run_id, "status": "Complete"},
            headers={"X-Monitor-Secret": fixture.SECRET},
        ) as answer,
    ):
        return answer.status


async def test_a_lie_is_published_as_unconfirmed_and_then_corrected(tmp_path: Path) -> None:
    """Broker, metrics and API show the claimed success, a run that goes on, and its failure."""
    sandbox, port = fixture.sandbox(), free_port()
    async with (
        fixture.started(sandbox) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path,
                fixture.workspace_configuration(sandbox, url, callbacks_port=port),
                broker_url=broker.url,
                callbacks_port=port,
            )
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        run_id = start_failing(sandbox)
        run = ("job_group", run_id)

        def words() -> list[str]:
            return subscriber.received().transitions().get(run, [])

        await eventually(lambda: words() == ["queued", "started"], why=lambda: str(words()))
        assert await send_lie(port, run_id) == HTTPStatus.NO_CONTENT
        await eventually(lambda: words()[2:] == ["succeeded"], why=lambda: str(words()))
        shown = (await face.json(f"/api/v1/runs/acme/job_group/{run_id}"))["run"]
        assert (shown["status"], shown["unconfirmed_end"]) == ("running", "succeeded")
        assert await face.total("dataprep_last_run_result", result="succeeded") == 0

        history = ["queued", "started", "succeeded", "corrected", "failed", "detailed"]
        await eventually(lambda: words() == history, why=lambda: str(words()))
        ends = {"from": "succeeded", "to": "failed"}
        await eventually(
            lambda: face.shows("dataprep_runs_corrected_total", 1, **ends), why="not counted"
        )
        assert await face.ends() == {("job_group", "succeeded"): 1, ("job_group", "failed"): 1}
        assert await face.total("dataprep_consecutive_failures", kind="job_group") == 1
        shown = (await face.json(f"/api/v1/runs/acme/job_group/{run_id}"))["run"]
        assert (shown["status"], shown["unconfirmed_end"]) == ("failed", None)
