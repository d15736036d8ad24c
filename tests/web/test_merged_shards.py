"""Several shards behind one server: lookups, requests and lists over all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.alerts import AlertState
from monitor.model.errors import ConfigurationError
from monitor.model.live_state import Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.web.merged_requests import merged_alerting, merged_requests
from monitor.web.shown_shards import (
    MergedLiveState,
    Mirrored,
    ShardDirectory,
    live_state_of,
    own_or_merged,
)
from tests.clocks import ManualClock
from tests.web.sample_reports import failure
from tests.web.sample_reports import shown as shown_of
from tests.web.served_shards import ServedShard

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


@pytest.fixture
async def shards(tmp_path: Path) -> AsyncIterator[list[ServedShard]]:
    clock = ManualClock()
    opened = [await ServedShard.open(tmp_path, name, clock=clock) for name in ("acme", "beta")]
    yield opened
    for shard in opened:
        await shard.bus.close()


@pytest.fixture
def directory(shards: list[ServedShard]) -> ShardDirectory:
    shown = {shard.name: shard.shown() for shard in shards}
    return ShardDirectory(lambda: shown)


async def test_live_state_of_all_shards_is_one(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """Lists hold what every shard knows; a lookup finds what only its workspace's shard knows."""
    view = MergedLiveState(directory)
    for shard in shards:
        shard.live_state.update_workspace(shard.name, reachability=Reachability.REACHABLE)
        shard.live_state.name_pipeline(shard.name, ORDERS.kind, ORDERS.id, f"of {shard.name}")
    assert [status.workspace for status in view.workspaces()] == ["acme", "beta"]
    named = view.pipelines()
    assert [pipeline.label for pipeline in named] == ["of acme", "of beta"]
    assert view.label("beta", ORDERS) == "of beta"
    assert view.workspace("gamma") is None
    assert not view.knows("gamma", ORDERS)
    shards[1].live_state.name_pipeline("beta", ORDERS.kind, "8", "new")
    assert len(view.pipelines()) == 3


async def test_a_report_is_one_of_all_shards(shards: list[ServedShard]) -> None:
    """With the lines of each; of a shard that is read from the store it is said where it is old."""
    shards[0].alerting.report = shown_of(failed_and_still_failing=(failure(),))
    shards[1].mirrored = Mirrored(holder=None, url=None, read_at=None, reason="no answer")
    shown = {shard.name: shard.shown() for shard in shards}
    now = datetime(2026, 11, 21, tzinfo=UTC)
    query = ReportQuery(since=now - timedelta(hours=13), until=now)

    report = await merged_alerting(ShardDirectory(lambda: shown)).report(query)

    assert [row.pipeline for row in report.failed_and_still_failing] == ["orders"]
    assert report.missing == ("shard beta is not read now: no answer",)
    assert report.verdict == "orders is still failing; not everything could be known."
    assert [len(shard.alerting.reports_asked) for shard in shards] == [1, 1]


async def test_a_shard_that_moves_is_looked_up_again(shards: list[ServedShard]) -> None:
    """Its workspaces are found while it is here, and not after it."""
    shown = {shard.name: shard.shown() for shard in shards}
    directory = ShardDirectory(lambda: shown)
    view = MergedLiveState(directory)
    assert view.workspace("beta") is not None
    del shown["beta"]
    assert view.workspace("beta") is None
    assert [status.workspace for status in view.workspaces()] == ["acme"]


async def test_a_single_shard_answers_itself(shards: list[ServedShard]) -> None:
    """Nothing is merged where there is one shard: its own view and snapshots come back."""
    shard, other = shards
    shown = {"": shard.shown()}
    directory = ShardDirectory(lambda: shown)
    assert live_state_of(directory)() is shard.live_state.view
    own = shard.shown().alerting
    alerting = own_or_merged(directory, lambda _: own, merged_alerting(directory))
    assert alerting() is own
    live_state = live_state_of(directory)
    shown[other.name] = other.shown()
    assert [status.workspace for status in live_state().workspaces()] == ["acme", "beta"]
    assert alerting().snapshot().alerts == ()
    assert alerting() is not own
    shown.clear()
    assert live_state().workspaces() == ()


async def test_a_silence_goes_to_every_shard_and_is_shown_once(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """It also mutes alerts about what only one of them holds."""
    alerting = merged_alerting(directory)
    await alerting.add_silence(shards[0].alerting.silence())
    assert [len(shard.alerting.snapshot.silences) for shard in shards] == [1, 1]
    assert [silence.id for silence in alerting.snapshot().silences] == ["5d3c"]
    assert await alerting.expire_silence("5d3c")
    assert not await alerting.expire_silence("5d3c")
    assert alerting.snapshot().silences == ()


async def test_an_acknowledgement_goes_to_the_shard_of_its_alert(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """The alert of another shard stays as it is; what no shard knows cannot be acknowledged."""
    alerting = merged_alerting(directory)
    for shard, fingerprint in zip(shards, ("1111", "2222"), strict=True):
        shard.alerting.show(shard.alerting.alert(fingerprint, workspace=shard.name))
    alert = shards[1].alerting.snapshot.alerts[0]
    assert await alerting.acknowledge("2222", alert.starts_at, "ann", "on it", None)
    first, second = alerting.snapshot().alerts
    assert (first.acknowledged, second.acknowledged is not None) == (None, True)
    assert not await alerting.acknowledge("3333", alert.starts_at, "ann", "", None)


async def test_alerts_about_the_daemon_are_shown_once(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """Two shards of one daemon find the same about it; the one that fires is shown."""
    for shard, state in zip(shards, (AlertState.PENDING, AlertState.FIRING), strict=True):
        shard.alerting.show(shard.alerting.alert("1111", workspace="bridge", state=state))
    (alert,) = merged_alerting(directory).snapshot().alerts
    assert alert.state is AlertState.FIRING


async def test_requests_are_routed_by_workspace(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """A request that names none of several workspaces, or an unknown one, says which there are."""
    requests = merged_requests(directory)
    assert await requests.track("beta", RunKind.JOB_GROUP, "17") == "beta follows 17"
    assert (shards[0].requested, len(shards[1].requested)) == ([], 1)
    with pytest.raises(ConfigurationError, match="one of acme, beta"):
        await requests.track(None, RunKind.JOB_GROUP, "17")
    with pytest.raises(ConfigurationError, match="did you mean beta"):
        await requests.webhooks("bet", "list", None)


async def test_a_replay_adds_up_all_shards(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """Every shard that has the output replays its own log."""
    replayed = await merged_alerting(directory).replay("mqtt", ManualClock().now())
    assert (replayed.sent, replayed.reason) == (6, None)
    assert [len(shard.alerting.replayed) for shard in shards] == [1, 1]


async def test_dead_letters_of_all_shards_are_processed(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """Each shard looks for the events; missing is what none of them has."""
    for shard, missing in zip(shards, (("a", "b"), ("b", "c")), strict=True):
        letters = LettersProcessed(output="mqtt", sent=1, left=2, missing=missing)
        shard.alerting.letters = letters
    ids = ("a", "b", "c")
    done = await merged_alerting(directory).process_letters("mqtt", LetterAction.RESEND, ids)
    assert done == LettersProcessed(output="mqtt", sent=2, left=4, missing=("b",))
    assert [len(shard.alerting.processed_letters) for shard in shards] == [1, 1]


async def test_a_run_is_explained_by_the_shard_of_its_workspace(
    shards: list[ServedShard], directory: ShardDirectory
) -> None:
    """The others are not asked: they would not know it."""
    key = RunKey("beta", RunKind.JOB_GROUP, "31")
    shards[1].alerting.known_runs.add(key)
    shards[0].alerting.known_runs.add(key)
    alerting = merged_alerting(directory)
    explanation = await alerting.explain_run(key)
    assert explanation is not None
    shards[1].alerting.known_runs.clear()
    assert await alerting.explain_run(key) is None
