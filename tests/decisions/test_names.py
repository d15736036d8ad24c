"""Names are for people: they change, and they are not unique."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.mqtt.topics import Topics
from tests.decisions.followed import ALL, Followed, following
from tests.outputs.metrics_parts import Metrics

TOPICS = Topics(prefix="dataprep/v1", instance="monitor")


async def succeeded(it: Followed) -> dict[str, float]:
    """Return what the metrics page of a daemon that starts now counts, by pipeline."""
    metrics = Metrics(
        bus=it.scenario.bus,
        live_state=it.scenario.live_state.view,
        clock=it.clock,
        registry=CollectorRegistry(),
        settings=MetricsSettings(),
        version="1",
    )
    await metrics.consumer.restore()
    while await metrics.consumer.count_some():
        pass
    body, _ = await metrics.exposition.render("")
    await metrics.exposition.close()
    return {
        sample.labels["pipeline"]: sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == "dataprep_runs_total"
        and (sample.labels["kind"], sample.labels["result"]) == ("job_group", "succeeded")
        and sample.value
    }


async def topics(it: Followed, run_id: int) -> set[str | None]:
    return {TOPICS.event(event) for event in await it.events(run_id)}


async def test_a_renamed_flow(tmp_path: Path) -> None:
    """The same flow goes on under its new name: one count, the same topics, one label.

    Distinguished by name, it would begin again at nothing, and its old series would never end.
    """
    async with following(tmp_path) as it:
        flow = it.flow("Web clicks")
        recipe = it.sandbox.world.recipes_of(flow.id)[0]
        before = it.run_job_group(recipe=recipe)
        await it.pass_time(120)
        assert await succeeded(it) == {"Web clicks": 1}

        it.sandbox.world.update(flow, by=flow.creator_id, name="Clicks and taps")
        await it.pass_time(660, step=60)
        assert it.label_of(flow) == "Clicks and taps"
        assert await succeeded(it) == {"Clicks and taps": 1}
        after = it.run_job_group(recipe=recipe)
        await it.pass_time(120)

        assert await succeeded(it) == {"Clicks and taps": 2}
        assert await topics(it, before.id) == await topics(it, after.id)
        assert await it.transitions(before.id) == await it.transitions(after.id) == ALL


async def test_two_flows_of_one_name(tmp_path: Path) -> None:
    """Each keeps its own count and its own topics, although both have one name.

    By their name, the successes of one would hide the failures of the other.
    """
    async with following(tmp_path) as it:
        twins = [flow for flow in it.sandbox.world.flows.live() if flow.name == "Daily sales"]
        first, second = sorted(twins, key=lambda twin: twin.id)
        groups = [
            it.run_job_group(recipe=it.sandbox.world.recipes_of(flow.id)[0])
            for flow in (first, second, second)
        ]
        await it.pass_time(120)

        assert await succeeded(it) == {"Daily sales": 1, f"Daily sales#{second.id}": 2}
        published = [await topics(it, group.id) for group in groups]
        assert published[0].isdisjoint(published[1])
        assert published[1] == published[2]
