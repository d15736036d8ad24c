"""``cluster`` against a server whose store other daemons share."""

from __future__ import annotations

import json
from pathlib import Path

from monitor.web.settings import ServerSettings
from tests.cli.canned_server import always, other_server
from tests.cli.command_process import CommandProcess
from tests.web.served_cluster import served_cluster, shard, two_daemons


async def test_the_command_lists_daemons_and_shards(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """A table for people, JSON, the shards as CSV; exit 1 where one has no holder."""
    async with served_cluster(tmp_path, ServerSettings(listen="127.0.0.1:0"), "acme") as cluster:
        clock = cluster.clock
        cluster.status = two_daemons(
            clock, shard("acme", "node-1", clock), shard("beta", "node-2", clock)
        )
        document = (await cluster.get("/api/v1/cluster")).document
    async with other_server(always(document)) as url:
        table = await run_command("cluster", "--url", url, "--output", "wide", config=None)
        assert (table.code, "node-2" in table.out, "beta" in table.out) == (0, True, True)
        assert table.err.startswith("2 daemons alive, 2 shards held.")
        raw = await run_command("cluster", "--url", url, "--json", config=None)
        assert json.loads(raw.out) == document
        rows = await run_command("cluster", "--url", url, "--output", "csv", config=None)
        assert rows.out.splitlines()[0].startswith('"name","workspaces","holder"')
    document["level"] = "critical"
    async with other_server(always(document)) as url:
        assert (await run_command("cluster", "--url", url, config=None)).code == 1
    document["level"] = "unknown"
    async with other_server(always(document)) as url:
        old = await run_command("cluster", "--url", url, config=None)
    assert (old.code, "unknown" in old.out, "held" in old.out) == (3, True, False)
