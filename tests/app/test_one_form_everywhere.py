"""What a daemon sends: every receiver gets the same events, each as its own schema says."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import aiohttp

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.event_receivers import ALL, Receivers, ServedSchemas, receivers
from tests.app.eventually import eventually
from tests.app.test_lying_callbacks import send_lie
from tests.servers import free_port

_WORK_SECONDS = 600.0  # five at the speed of the sandbox
SEEN_BY_CALLBACK = ("queued", "started", "succeeded", "confirmed", "detailed")
RETAINED = {
    "dataprep.alert.state.v1",
    "dataprep.bridge.info.v1",
    "dataprep.bridge.state.v1",
    "dataprep.pipeline.state.v1",
    "dataprep.workspace.state.v1",
}


def start(sandbox: Sandbox, outcome: Outcome, *, work_seconds: float) -> str:
    """Start a job group of the first recipe that can run, and return its id."""
    recipe = next(
        recipe for recipe in sandbox.world.recipes.live() if sandbox.world.outputs_of(recipe.id)
    )
    sandbox.engine.order(Order(outcome=outcome, queue_seconds=1, work_seconds=work_seconds))
    return str(sandbox.engine.start_job_group(recipe, by=recipe.creator_id).id)


async def disable_a_schedule(sandbox: Sandbox, url: str) -> None:
    """Change something of the workspace itself."""
    schedule = next(each for each in sandbox.world.schedules.live() if each.enabled)
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {sandbox.token}"}) as session,
        session.post(f"{url}/v4/schedules/{schedule.id}/disable", json={}) as answer,
    ):
        assert answer.ok, await answer.text()


async def has_words(received: Receivers, run_id: str, words: tuple[str, ...]) -> bool:
    """True where each receiver has just these events of the run, in this order."""
    return all(tuple(found) == words for found in (await received.of_run(run_id)).values())


async def succeed_by_callback(
    sandbox: Sandbox, received: Receivers, *, words: tuple[str, ...] = SEEN_BY_CALLBACK
) -> str:
    """Let a run succeed with a callback before every read; return its id."""
    run_id = start(sandbox, Outcome.COMPLETE, work_seconds=_WORK_SECONDS)

    async def has_started() -> bool:
        return "started" in (await received.of_run(run_id))["api"]

    await eventually(has_started, why="the run was not seen")
    assert await send_lie(received.callbacks_port, run_id) == HTTPStatus.NO_CONTENT
    seen: dict[str, list[str]] = {}

    async def is_complete() -> bool:
        seen.update({at: list(found) for at, found in (await received.of_run(run_id)).items()})
        outputs = ("mqtt", "webhook", "file")
        return all(
            tuple(found) == (words if at in outputs else SEEN_BY_CALLBACK)
            for at, found in seen.items()
        )

    await eventually(is_complete, why=lambda: f"received: {seen}")
    return run_id


async def test_a_success_seen_by_callback_is_followed_by_its_details(tmp_path: Path) -> None:
    """It goes out at once without an end; its confirmation and details follow, everywhere."""
    sandbox = fixture.sandbox()
    async with receivers(tmp_path, sandbox, callbacks_port=free_port()) as received:
        await eventually(lambda: received.face.is_following("acme"), why="not followed")
        run_id = await succeed_by_callback(sandbox, received)
        for events in (await received.of_run(run_id)).values():
            claimed, confirmed, detailed = (
                events[word]["data"]["run"] for word in ("succeeded", "confirmed", "detailed")
            )
            assert claimed["unconfirmed"]
            assert (claimed["finished"], claimed["duration_seconds"]) == (None, None)
            assert not confirmed["unconfirmed"]
            assert not detailed["unconfirmed"]
            assert detailed["finished"] is not None
            assert detailed["duration_seconds"] >= 0
            assert detailed["status"] == "succeeded"
            for word in ("confirmed", "detailed"):
                assert events[word]["id"] == f"acme:job_group:{run_id}:{word}"
                assert events[word]["type"] == f"dataprep.run.{word}.v1"
        topics = {message.topic for message in received.subscriber.messages}
        assert {topic.rpartition("/")[2] for topic in topics} >= {"confirmed", "detailed"}


async def test_details_and_confirmations_can_be_left_out(tmp_path: Path) -> None:
    """Outputs whose selection excludes them send the other events; the API shows all."""
    events = (*ALL, "!run.detailed", "!run.confirmed")
    sandbox = fixture.sandbox()
    async with receivers(tmp_path, sandbox, callbacks_port=free_port(), events=events) as received:
        await eventually(lambda: received.face.is_following("acme"), why="not followed")
        await succeed_by_callback(sandbox, received, words=SEEN_BY_CALLBACK[:3])
        counted = "dataprep_monitor_notifications_total"
        for output in ("mqtt", "webhook", "file"):
            assert await received.face.total(counted, output=output, outcome="refused") == 0


async def test_every_message_is_as_its_schema_says(tmp_path: Path) -> None:
    """Events of runs, alerts and workspaces, and retained documents; an event is one everywhere."""
    sandbox = fixture.sandbox()
    async with receivers(tmp_path, sandbox, callbacks_port=free_port()) as received:
        await eventually(lambda: received.face.is_following("acme"), why="not followed")
        failed = start(sandbox, Outcome.FAILED, work_seconds=1)

        async def words_of_alerts(*words: str) -> bool:
            return all(
                {event["type"].split(".")[-2] for event in events if ".alert." in event["type"]}
                >= set(words)
                for events in (await received.events()).values()
            )

        await eventually(lambda: words_of_alerts("fired"), why="no alert fired")
        words = ("queued", "started", "failed", "detailed")
        await eventually(lambda: has_words(received, failed, words), why="the failure")
        await succeed_by_callback(sandbox, received)
        await eventually(lambda: words_of_alerts("fired", "resolved"), why="none resolved")

        await disable_a_schedule(sandbox, received.workspace_url)

        async def is_complete() -> bool:
            """True where each event is everywhere, that of the schedule among them."""
            everywhere = [
                {event["id"] for event in at} for at in (await received.events()).values()
            ]
            is_changed = any(":schedule:" in event_id for event_id in everywhere[0])
            return is_changed and all(ids == everywhere[0] for ids in everywhere)

        await eventually(is_complete, why="the change of a schedule")
        schemas = await ServedSchemas.of(received.face)
        forms: dict[str, dict[str, object]] = {}
        for receiver, events in (await received.events()).items():
            for event in events:
                schemas.validate_event(event)
                forms.setdefault(event["id"], {})[receiver] = event
        for found in forms.values():
            # The newest may be on their way to a receiver.
            first = next(iter(found.values()))
            assert all(event == first for event in found.values())
        for message in received.retained():
            schemas.validate_retained(message)
        types = {f"dataprep.run.{word}.v1" for word in (*SEEN_BY_CALLBACK, "failed")}
        types |= {"dataprep.alert.fired.v1", "dataprep.alert.resolved.v1"}
        assert schemas.used >= {*types, "dataprep.workspace.changed.v1", *RETAINED}

        tasks = (await received.face.json("/api/v1/webhooks"))["data"]
        assert tasks
        assert all(task["state"] == "registered" for task in tasks)
