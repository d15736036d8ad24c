"""The workspaces that the states of consumers are about, for a store that is split or joined.

The state of a consumer is its own affair, except here: metrics, alerting and MQTT keep rows about
workspaces in it, and each row must go where its workspace goes. What is about no workspace goes
home with its shard if it is counted, and everywhere otherwise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

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
from monitor.alerting.engine.committed_state import CONSUMER as ALERTING
from monitor.callbacks.missed_callbacks import MissedCallbackWatch
from monitor.model.alerts import BRIDGE
from monitor.model.runs import RunKey
from monitor.outputs.metrics.consumer import CONSUMER as METRICS
from monitor.outputs.metrics.counter_rows import AwaitedDurations

_AWAITED = AwaitedDurations().key
_RETAINED = "retained:"
_CONSUMER_PREFIX = MissedCallbackWatch.consumer("")
# The words of an alerting key before the workspace.
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


class WorkspaceStates:
    """States of the consumers of a store that has these workspaces."""

    exact = frozenset({METRICS, ALERTING})

    def __init__(self, workspaces: Collection[str]) -> None:
        self._workspaces = frozenset(workspaces)
        self._workspaces_of_alerts: dict[str, str] = {}

    def workspace_of(self, consumer: str) -> str | None:
        return (
            consumer.removeprefix(_CONSUMER_PREFIX)
            if consumer.startswith(_CONSUMER_PREFIX)
            else None
        )

    def learn(self, alert: str, workspace: str) -> None:
        self._workspaces_of_alerts[alert] = workspace

    def parts(self, consumer: str, key: str, value: bytes) -> Iterable[tuple[str | None, bytes]]:
        if consumer == METRICS:
            return _awaited(value) if key == _AWAITED else [(_decode_words(key.encode())[1], value)]
        if key.startswith(_RETAINED):
            return [(self._workspace_of_topic(key.partition(" ")[2]), value)]
        return [(self._workspace_of_alert(key, value) if consumer == ALERTING else None, value)]

    def join(self, consumer: str, key: str, values: Sequence[bytes]) -> bytes:
        if consumer == METRICS and key == _AWAITED:
            runs = [run for value in values for run in _decode_awaited(value).runs]
            return msgspec.json.encode(AwaitedDurations(runs=tuple(runs)))
        if consumer == ALERTING and key.startswith(f"{TRANSITIONS}:"):
            total = sum(_decode_count(value).count for value in values)
            return msgspec.json.encode(TransitionCount(count=total))
        return values[0]

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
        return BRIDGE if table == TRANSITIONS else None

    def _workspace_of_topic(self, topic: str) -> str:
        match = _OF_A_WORKSPACE.fullmatch(topic)
        if _OF_THE_DAEMON.fullmatch(topic) or match is None or match[1] not in self._workspaces:
            return BRIDGE
        return match[1]


def _awaited(value: bytes) -> list[tuple[str, bytes]]:
    runs: defaultdict[str, list[RunKey]] = defaultdict(list)
    for run in _decode_awaited(value).runs:
        runs[run.workspace].append(run)
    return [
        (workspace, msgspec.json.encode(AwaitedDurations(runs=tuple(keys))))
        for workspace, keys in runs.items()
    ]
