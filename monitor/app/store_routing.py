"""Where the rows of a store belong, when its log is split into shards or logs become one.

The state of a consumer is its own affair, except here: metrics, alerting and MQTT keep rows about
workspaces in it, and each row must go where its workspace goes. What is about no workspace goes
into the shard of the cluster if it is counted, and into each shard otherwise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from monitor.alerting.alerts.pending_step import (
    ALERT,
    ENDED,
    FIRST,
    LEARNED,
    MEMORY,
    PAST,
    TRANSITIONS,
    TransitionCount,
)
from monitor.alerting.engine.commit import CONSUMER as ALERTING
from monitor.bus.shards import CLUSTER, SOLE
from monitor.callbacks.misses import MissWatch
from monitor.model.alerts import BRIDGE
from monitor.model.runs import RunKey
from monitor.outputs.metrics.consumer import CONSUMER as METRICS
from monitor.outputs.metrics.rows import AwaitedDurations

_EXACT = frozenset({METRICS, ALERTING})
_AWAITED = AwaitedDurations().key
_RETAINED = "retained:"
_MISSES = MissWatch.consumer("")
# The words of an alerting key in front of the workspace.
_WORDS_BEFORE = {FIRST: 1, LEARNED: 1, MEMORY: 2}
_OF_THE_DAEMON = re.compile(r"(?:.*/)?bridge/[^/]+/(?:[^/]+|alert/[^/]+/[^/]+/state)")
_OF_A_WORKSPACE = re.compile(
    r"(?:.*/)?([^/]+)/(?:(?:flow_run|job_group|plan_run)/[^/]+/|alert/[^/]+/[^/]+/)?state"
)


class _About(msgspec.Struct):
    workspace: str


class _StoredAlert(msgspec.Struct):
    """The beginning of what is stored of an alert, open or ended."""

    alert: _About


_decode_alert = msgspec.json.Decoder(_StoredAlert).decode
_decode_words = msgspec.json.Decoder(list[str]).decode
_decode_awaited = msgspec.json.Decoder(AwaitedDurations).decode
_decode_count = msgspec.json.Decoder(TransitionCount).decode


class SameShards:
    """From a database to another one: everything stays in its shard."""

    exact = _EXACT

    def learn(self, alert: str, workspace: str) -> None:
        """Nothing depends on it."""

    def shard_of(self, shard: str, workspace: str) -> str:  # noqa: ARG002 - a TransferRouting
        return shard

    def shards_of_consumer(self, shard: str, consumer: str) -> tuple[str, ...]:  # noqa: ARG002 - a TransferRouting
        return (shard,)

    def states(self, consumer: str, key: str, values: Mapping[str, bytes]) -> dict[str, bytes]:  # noqa: ARG002 - a TransferRouting
        return dict(values)


class OneShard:
    """From a database into a file: all shards become one."""

    exact = _EXACT

    def learn(self, alert: str, workspace: str) -> None:
        """Nothing depends on it."""

    def shard_of(self, shard: str, workspace: str) -> str:  # noqa: ARG002 - a TransferRouting
        return SOLE

    def shards_of_consumer(self, shard: str, consumer: str) -> tuple[str, ...]:  # noqa: ARG002 - a TransferRouting
        return (SOLE,)

    def states(self, consumer: str, key: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        return {SOLE: joined_state(consumer, key, values)}


class ShardsOfWorkspaces:
    """From a file into a database: each workspace goes into its shard.

    ``workspaces`` are those of the store, ``shards`` what the configuration says of some of them;
    any other is a shard of its own. ``home`` is where rows go that are about no workspace and must
    not be counted twice.
    """

    exact = _EXACT

    def __init__(
        self, workspaces: Collection[str], shards: Mapping[str, str], *, home: str = CLUSTER
    ) -> None:
        self._shards = {name: shards.get(name, name) for name in workspaces if name != BRIDGE}
        self._all = tuple(sorted({*self._shards.values(), home}))
        self._home = home
        self._workspaces_of_alerts: dict[str, str] = {}

    def learn(self, alert: str, workspace: str) -> None:
        self._workspaces_of_alerts[alert] = workspace

    def shard_of(self, shard: str, workspace: str) -> str:  # noqa: ARG002 - a TransferRouting
        return self._shards.get(workspace, self._home)

    def shards_of_consumer(self, shard: str, consumer: str) -> tuple[str, ...]:
        if consumer.startswith(_MISSES):
            return (self.shard_of(shard, consumer.removeprefix(_MISSES)),)
        return self._all

    def states(self, consumer: str, key: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        [(shard, value)] = values.items()
        if consumer == METRICS and key == _AWAITED:
            return self._awaited(value)
        workspace = self._workspace_of(consumer, key, value)
        if workspace is not None:
            return {self.shard_of(shard, workspace): value}
        if consumer == ALERTING and key.startswith(f"{TRANSITIONS}:"):
            return {self._home: value}
        return dict.fromkeys(self.shards_of_consumer(shard, consumer), value)

    def _awaited(self, value: bytes) -> dict[str, bytes]:
        runs: defaultdict[str, list[RunKey]] = defaultdict(list)
        for run in _decode_awaited(value).runs:
            runs[self.shard_of(SOLE, run.workspace)].append(run)
        return {
            shard: msgspec.json.encode(AwaitedDurations(runs=tuple(keys)))
            for shard, keys in sorted(runs.items())
        }

    def _workspace_of(self, consumer: str, key: str, value: bytes) -> str | None:
        """Return what a row of a consumer's state is about; None: no workspace."""
        if consumer == METRICS:
            return _decode_words(key.encode())[1]
        if key.startswith(_RETAINED):
            return self._workspace_of_topic(key.partition(" ")[2])
        return self._workspace_of_alert(key, value) if consumer == ALERTING else None

    def _workspace_of_alert(self, key: str, value: bytes) -> str | None:
        table, _, rest = key.partition(":")
        if table in (ALERT, ENDED):
            workspace = _decode_alert(value).alert.workspace
            self.learn(rest.partition(":")[0], workspace)
            return workspace
        if table == PAST:
            return self._workspaces_of_alerts.get(rest)
        if table in _WORDS_BEFORE:
            return rest.split(":")[_WORDS_BEFORE[table]]
        return None

    def _workspace_of_topic(self, topic: str) -> str:
        match = _OF_A_WORKSPACE.fullmatch(topic)
        if _OF_THE_DAEMON.fullmatch(topic) or match is None or match[1] not in self._shards:
            return BRIDGE
        return match[1]


def joined_state(consumer: str, key: str, values: Mapping[str, bytes]) -> bytes:
    """Return one value for a key that several shards have."""
    in_order = [value for _, value in sorted(values.items())]
    if len(in_order) == 1:
        return in_order[0]
    if consumer == METRICS and key == _AWAITED:
        runs = [run for value in in_order for run in _decode_awaited(value).runs]
        return msgspec.json.encode(AwaitedDurations(runs=tuple(runs)))
    if consumer == ALERTING and key.startswith(f"{TRANSITIONS}:"):
        total = sum(_decode_count(value).count for value in in_order)
        return msgspec.json.encode(TransitionCount(count=total))
    return in_order[0]
