"""The page and the JSON of the cluster, and how shards of other daemons are marked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.model.errors import BusUnavailableError
from monitor.model.runs import Pipeline, PipelineKind, Status
from monitor.web.health import ClusterProblems
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import Mirrored
from tests.pipeline_healths import end_at, health_after, show
from tests.web.served_cluster import ServedCluster, served_cluster, shard, two_daemons
from tests.web.site import Site


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ServedCluster]:
    settings = ServerSettings(listen="127.0.0.1:0")
    async with served_cluster(tmp_path, settings, "acme", "beta") as made:
        made.status = two_daemons(
            made.clock, shard("acme", "node-1", made.clock), shard("beta", "node-2", made.clock)
        )
        yield made


async def test_daemons_and_shards_are_shown(cluster: ServedCluster) -> None:
    """Each page shows who holds which shard since when, how late it is, and where it is shown."""
    document = (await cluster.get("/api/v1/cluster")).document
    assert (document["level"], document["sentence"]) == ("ok", "2 daemons alive, 2 shards held")
    assert [of["is_this"] for of in document["daemons"]] == [True, False]
    first, second = document["shards"]
    assert (first["is_here"], second["is_here"]) == (True, False)
    ago = "2026-11-21T09:51:00Z"
    assert {document["last_takeover_at"], second["taken_over_at"]} == {ago}
    assert second["holder_url"] == "https://node-2.example.com:8080"
    page = (await cluster.get("/cluster")).text
    assert 'href="https://node-2.example.com:8080"' in page
    assert "taken over" in page
    assert 'href="/cluster"' in (await cluster.get("/")).text  # in the menu


async def test_shards_without_a_holder_come_first(cluster: ServedCluster) -> None:
    """In words, before shards that have a holder; also where the holder is gone."""
    clock = cluster.clock
    cluster.status = two_daemons(
        clock,
        shard("acme", "node-1", clock),
        shard("beta", "node-2", clock),
        shard("gamma", None, clock, held_since=None),
        is_alive=False,
    )
    document = (await cluster.get("/api/v1/cluster")).document
    assert document["level"] == "critical"
    assert document["sentence"] == (
        "2 shards are held by no daemon: beta, gamma; 1 daemon gone: node-2; "
        "1 daemon alive, 1 shard held"
    )
    assert document["shards"][0]["name"] == "gamma"
    assert "✗ no daemon" in (await cluster.get("/cluster")).text


async def test_a_store_that_does_not_answer_is_said_in_a_sentence(cluster: ServedCluster) -> None:
    """With what it said last; a daemon that never had an answer says only why."""
    cluster.away = BusUnavailableError("the database: connection refused")
    empty = (await cluster.get("/api/v1/cluster")).document
    assert empty["sentence"] == "The store does not answer: the database: connection refused"
    assert (empty["level"], empty["is_shared"], empty["shards"]) == ("unknown", True, [])
    assert (await cluster.get("/cluster")).status == 200
    cluster.away = None
    await cluster.get("/api/v1/cluster")
    cluster.away = BusUnavailableError("the database: connection refused")
    last = (await cluster.get("/api/v1/cluster")).document
    assert last["sentence"].startswith("The store does not answer, this is what it said last")
    assert len(last["shards"]) == 2


async def test_shards_of_one_daemon(cluster: ServedCluster) -> None:
    """An unknown daemon is named with those that are known; what is cut is counted."""
    of_one = (await cluster.get("/api/v1/cluster?holder=node-2")).document
    assert [found["name"] for found in of_one["shards"]] == ["beta"]
    cut = (await cluster.get("/api/v1/cluster?limit=1")).document
    assert (len(cut["shards"]), cut["hidden"]) == (1, 1)
    wrong = await cluster.get("/api/v1/cluster?holder=west")
    assert (wrong.status, "known: node-1, node-2" in wrong.document["detail"]) == (400, True)


async def test_workspaces_of_another_daemon_are_marked_with_their_age(
    cluster: ServedCluster,
) -> None:
    """On the list, on its own page and in the sentence of the state, with the holder's page."""
    read_at = cluster.clock.now() - timedelta(seconds=12)
    cluster.mirror("beta", Mirrored(holder="node-2", url="https://node-2:1", read_at=read_at))
    listed = (await cluster.get("/api/v1/workspaces")).document["data"]
    assert [found["is_here"] for found in listed] == [True, False]
    assert (listed[1]["holder"], listed[1]["as_of"] is not None) == ("node-2", True)
    page = (await cluster.get("/workspaces/beta")).text
    assert "only its holder shows them" in page
    assert 'href="https://node-2:1"' in page
    assert "only its holder shows them" not in (await cluster.get("/workspaces/acme")).text
    state = (await cluster.get("/api/v1/status")).document
    assert (state["elsewhere"], state["elsewhere_as_of"] is not None) == (1, True)
    assert "1 workspace of other daemons as stored" in (await cluster.get("/")).text


async def test_problems_of_the_cluster_are_in_the_sentence(cluster: ServedCluster) -> None:
    """The state is unknown then, and never green."""
    cluster.problems = ClusterProblems(words=("1 shard is held by no daemon: beta",))
    state = (await cluster.get("/api/v1/status")).document
    assert state["cluster"] == list(cluster.problems.words)
    assert "1 shard is held by no daemon: beta" in state["sentence"]
    assert state["level"] == "unknown"


async def test_a_store_that_is_away_makes_all_unknown(cluster: ServedCluster) -> None:
    """Also what failed before: it may have succeeded since, and `status` exits 3 by this level."""
    live_state, flow = cluster.shards["acme"].live_state, Pipeline(kind=PipelineKind.FLOW, id="7")
    live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    failed = end_at(cluster.clock.now(), Status.FAILED)
    show(live_state, health_after(failed, pipeline=flow))
    assert (await cluster.get("/api/v1/status")).document["level"] == "critical"
    away = "the store does not answer since 10:00"
    cluster.problems = ClusterProblems(words=(away,), is_store_away=True)
    state = (await cluster.get("/api/v1/status")).document
    assert (state["level"], state["failing"], away in state["sentence"]) == ("unknown", 1, True)


async def test_pages_wait_for_mirrors_and_scrapers_do_not(cluster: ServedCluster) -> None:
    """Pages of shards read them first; metrics and health checks read nothing."""
    for path in ("/metrics", "/healthz", "/readyz"):
        await cluster.get(path)
    assert cluster.refreshes == 0
    await cluster.get("/workspaces")
    await cluster.get("/api/v1/workspaces")
    assert cluster.refreshes == 2


async def test_a_file_is_not_shared(site: Site) -> None:
    """The page says so, and the menu does not lead there."""
    document = (await site.get("/api/v1/cluster")).document
    assert (document["is_shared"], document["level"]) == (False, "ok")
    assert "store import" in (await site.get("/cluster")).text
    assert 'href="/cluster"' not in (await site.get("/")).text
