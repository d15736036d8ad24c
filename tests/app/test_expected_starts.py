"""The next expected start has one source: MQTT, metrics and page show the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.model.alerts import AlertingSnapshot, StartAfterGrace
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.outputs.mqtt.states import next_start
from monitor.tracking.live_state import LiveState
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.test_learned_limits import EXPECTED, values

AT = datetime(2026, 11, 21, 10, 15, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")
PLAN = Pipeline(kind=PipelineKind.PLAN, id="11", name="Month end")


def start_of(snapshot: AlertingSnapshot, pipeline: Pipeline, *, at: datetime) -> datetime | None:
    """Return what MQTT publishes of a pipeline of a workspace whose clock is a minute ahead."""
    live_state = LiveState(["acme"])
    live_state.update_workspace("acme", clock_skew_seconds=60.0)
    return next_start(snapshot, live_state.view, "acme", pipeline, now=at)


def test_a_flow_and_a_plan_of_one_id_have_their_own_starts() -> None:
    """The start of a pipeline is that of its flow runs or plan runs, in its own workspace."""
    snapshot = AlertingSnapshot(expected={("acme", RunKind.FLOW_RUN, "11"): AT})

    assert start_of(snapshot, FLOW, at=AT) == AT
    assert start_of(snapshot, PLAN, at=AT) is None
    other = AlertingSnapshot(expected={("other", RunKind.FLOW_RUN, "11"): AT})
    assert start_of(other, FLOW, at=AT) is None


def test_a_start_is_never_further_back_than_its_grace() -> None:
    """Then the next one is shown; and none where that is past too and not evaluated."""
    key, grace = ("acme", RunKind.FLOW_RUN, "11"), timedelta(minutes=10)
    later = StartAfterGrace(
        grace_ends_at=AT + grace,
        grace_seconds=grace.total_seconds(),
        next_at=AT + timedelta(hours=1),
    )
    snapshot = AlertingSnapshot(expected={key: AT}, after_grace={key: later})

    assert start_of(snapshot, FLOW, at=AT + timedelta(minutes=8)) == AT
    assert start_of(snapshot, FLOW, at=AT + timedelta(minutes=10)) == later.next_at
    assert start_of(snapshot, FLOW, at=AT + timedelta(hours=2)) is None


async def test_broker_page_and_metrics_show_the_same_start(tmp_path: Path) -> None:
    """The retained state of a scheduled flow names the start that page and metrics name."""
    workspace = fixture.sandbox()
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
            )
        ) as face,
    ):
        workspace.open_for_work()
        published: dict[str, str] = {}
        shown: dict[str, str] = {}

        async def agree() -> bool:
            published.clear()
            shown.clear()
            for message in subscriber.messages:
                if "/flow_run/" in message.topic and message.topic.endswith("/state"):
                    state = json.loads(message.payload)
                    if state["next_expected_start"] is not None:
                        published[state["pipeline"]["id"]] = state["next_expected_start"]
            for row in (await face.json("/api/v1/pipelines"))["data"]:
                if row["pipeline_id"] in published and row["run_kind"] == "flow_run":
                    shown[row["pipeline_id"]] = row["expected_start_at"]
            return bool(published) and published == shown

        await eventually(agree, why=lambda: f"published: {published}, shown: {shown}")
        measured = await values(face, EXPECTED)
        instants = {datetime.fromisoformat(at).timestamp() for at in published.values()}
        assert instants <= set(measured.values())
