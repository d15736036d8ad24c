"""The sources of page and API for those who see some workspaces only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from monitor.model.globs import parse_globs
from monitor.web.health import ClusterProblems, DaemonStatus
from monitor.web.merged_requests import merged_alerting
from monitor.web.restricted.alerting import restricted_alerting
from monitor.web.restricted.live_state import RestrictedLiveState, Sees
from monitor.web.restricted.stored_runs import RestrictedRuns
from monitor.web.shown_shards import (
    ShardDirectory,
    ShownShard,
    ShownShards,
    live_state_of,
    own_or_merged,
)
from monitor.web.views.view import ViewSources


def seeing(globs: Sequence[str]) -> Sees:
    """Return what says whether a workspace is shown to those with these globs."""
    parsed = parse_globs(globs)
    return lambda workspace: parsed.match([workspace])


def restricted_sources(whole: ViewSources, sees: Sees) -> ViewSources:
    """Return sources that know of no workspace but those that are seen, nor of the daemon."""
    directory = ShardDirectory(_restricted_shards(whole.shards, sees))
    live_state = live_state_of(directory)

    def names() -> Iterator[str]:
        return (status.workspace for status in live_state().workspaces())

    def daemon() -> DaemonStatus:
        return msgspec.structs.replace(whole.daemon(), reports=())

    async def no_cluster() -> None:
        """Which daemon holds what is nothing for these readers."""

    return dataclasses.replace(
        whole,
        shards=directory,
        runs=RestrictedRuns(whole.runs, sees, names),
        live_state=live_state,
        checks=tuple,
        alerting_requests=own_or_merged(
            directory, attrgetter("alerting"), merged_alerting(directory)
        ),
        daemon=daemon,
        cluster=no_cluster,
        cluster_problems=ClusterProblems,
        sees=sees,
        made={},
    )


def _restricted_shards(whole: ShardDirectory, sees: Sees) -> ShownShards:
    """Return what returns the shards that have a workspace that is seen."""
    made: dict[str, tuple[ShownShard, ShownShard]] = {}  # name -> of what, and that

    def shown() -> Mapping[str, ShownShard]:
        now = {shard.name: shard for shard in whole.all()}
        for name in made.keys() - now.keys():
            del made[name]
        for name, shard in now.items():
            if name not in made or made[name][0] is not shard:
                made[name] = shard, _restricted(shard, sees)
        return {name: of for name, (_, of) in made.items() if of.live.workspaces()}

    return shown


def _restricted(shard: ShownShard, sees: Sees) -> ShownShard:
    live = RestrictedLiveState(shard.live, sees)

    def names() -> Iterator[str]:
        return (status.workspace for status in live.workspaces())

    return dataclasses.replace(
        shard,
        live=live,
        alerting=restricted_alerting(shard.alerting, sees, names),
        outputs=tuple,
    )
