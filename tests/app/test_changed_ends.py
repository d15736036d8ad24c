"""A run that the workspace ends as complete, then as failed, then as complete again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker


def start_one(sandbox: Sandbox) -> JobGroup:
    """Start a job group that will be complete."""
    recipe = next(
        recipe for recipe in sandbox.world.recipes.live() if sandbox.world.outputs_of(recipe.id)
    )
    sandbox.engine.order(Order(outcome=Outcome.COMPLETE))
    return sandbox.engine.start_job_group(recipe, by=recipe.creator_id)


def change(sandbox: Sandbox, group: JobGroup, status: NativeStatus) -> None:
    """Write another end into the record, as a person with access to the workspace would."""
    group.status, group.updated_at = status, sandbox.world.now()


async def firing(face: Face) -> int:
    alerts = (await face.json("/api/v1/alerts?state=firing"))["data"]
    return sum(alert["labels"]["alertname"] == "run_failed" for alert in alerts)


async def test_every_face_shows_the_last_word(tmp_path: Path) -> None:
    """Events, alerts, counters, gauges, retained state and API follow each change, both ways."""
    sandbox = fixture.sandbox()
    async with (
        fixture.started(sandbox) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path, fixture.workspace_configuration(sandbox, url), broker_url=broker.url
            )
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        group = start_one(sandbox)
        run = ("job_group", str(group.id))
        path = f"/api/v1/runs/acme/job_group/{group.id}"

        def words() -> list[str]:
            events = subscriber.received().transitions().get(run, [])
            return [word for word in events if word != "detailed"]

        async def has_alerts(number: int) -> bool:
            return await firing(face) == number

        def last_run() -> str | None:
            topic = f"/job_group/{group.flow_id}/state"
            newest = [last for last in subscriber.values(topic, "last_run") if last][-1:]
            return newest[0]["status"] if newest and newest[0]["id"] == run[1] else None

        async def are_shown(history: Sequence[str], alerts: int) -> None:
            end, ends = history[-1], {"from": history[-3], "to": history[-1]}
            await eventually(lambda: words() == history, why=lambda: str(words()))
            await eventually(lambda: has_alerts(alerts), why=f"not {alerts} alerts")
            await eventually(lambda: last_run() == end, why=lambda: str(last_run()))
            await eventually(
                lambda: face.shows("dataprep_runs_corrected_total", 1, **ends), why="not counted"
            )
            assert await face.total("dataprep_consecutive_failures", kind="job_group") == alerts
            shown = await face.json(path)
            assert shown["run"]["status"] == end
            corrections = ["corrected"] * history.count("corrected")
            states = [word for word in history if word != "corrected"]
            assert [row["state"] for row in shown["transitions"]] == [*states, *corrections]

        history = ["queued", "started", "succeeded"]
        await eventually(lambda: words() == history, why=lambda: str(words()))
        change(sandbox, group, NativeStatus.FAILED)
        await are_shown([*history, "corrected", "failed"], 1)
        change(sandbox, group, NativeStatus.COMPLETE)
        await are_shown([*history, "corrected", "failed", "corrected", "succeeded"], 0)
        assert await face.ends() == {("job_group", "succeeded"): 2, ("job_group", "failed"): 1}
