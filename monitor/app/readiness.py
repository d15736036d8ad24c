"""The readiness checks, by name: what the daemon needs to do its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from monitor.bus.contract import EventBus, WriteFailures
from monitor.bus.shards import ShardStore
from monitor.model.checks import Check, CheckLine, failed, ok, warning, worst
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.live_state import Reachability
from monitor.model.silencing import is_active, silenced_of
from monitor.outputs.records import RECORDS
from monitor.supervisor import Supervisor, TaskState
from monitor.web.health import READINESS_SECONDS, STARTING, ReadChecks
from monitor.web.shown_shards import ShownLiveState, ShownShards

Ask = Callable[[str], Awaitable[Sequence[CheckLine]]]  # by the subject of its line

_PROBE_SECONDS = 3.0
# After the last write that the store refused, and only if it has stored another since.
_TROUBLE_SECONDS = 60.0
_END_SOME = "end silences that are no longer needed"


async def probe_store(bus: EventBus | ShardStore) -> None:
    """Write a value that is never read.

    Raises:
        BusError: it could not be written, or not in time.
    """
    await bus.probe(timeout_seconds=_PROBE_SECONDS)


def readiness_checks(
    *,
    store: ShardStore,
    shards: ShownShards,
    cluster: Ask | None,
    has_started: Callable[[], bool],
    clock: Clock,
    supervisor: Supervisor,
) -> ReadChecks:
    """Return what gives the checks of ``/readyz``.

    ``shards`` are those that this daemon holds; ``cluster`` None: it does not share the store.
    """

    def outputs() -> dict[str, CheckLine]:
        return worst(line for shard in shards().values() for line in shard.outputs())

    async def output(name: str) -> list[CheckLine]:
        return [outputs().get(name) or ok(name, "not configured")]

    async def starting(subject: str) -> list[CheckLine]:
        return [failed(subject, f"{len(shards()):,} shards have started so far")]

    def checks() -> Sequence[Check]:
        usual = [record.section for record in RECORDS if record.is_usual]
        asks: dict[str, Ask] = {
            "store": partial(_store, store, shards),
            **({} if cluster is None else {"cluster": cluster}),
            **({} if has_started() else {STARTING: starting}),
            "polls": partial(_polls, shards, clock),
            **dict.fromkeys([*usual, *outputs()], output),
            "tasks": partial(_tasks, supervisor),
            "silences": partial(_silences, shards, clock),
        }
        return [
            Check(subject, partial(ask, subject), READINESS_SECONDS)
            for subject, ask in asks.items()
        ]

    return checks


async def _store(store: ShardStore, shards: ShownShards, subject: str) -> list[CheckLine]:
    """Judge the store also by what it was to store, because a probe fits even on a full disk."""
    try:
        await probe_store(store)
        statuses = [await shard.bus.status() for shard in shards().values()]
    except BusError as exc:
        return [failed(subject, f"cannot be written: {exc}")]
    failures = (status.write_failures for status in statuses)
    return [next(filter(None, map(partial(_refused, subject), failures)), ok(subject, "writable"))]


def _refused(subject: str, failures: WriteFailures | None) -> CheckLine | None:
    if failures is None or (failures.is_over and failures.quiet_seconds >= _TROUBLE_SECONDS):
        return None
    return failed(
        subject,
        f"{failures.count:,} writes were refused since {failures.since:%Y-%m-%dT%H:%M:%SZ}, the "
        f"last {failures.quiet_seconds:.0f} s ago: {failures.reason}",
    )


async def _tasks(supervisor: Supervisor, subject: str) -> list[CheckLine]:
    stopped = [
        f"{name}: {status.reason}"
        for name, status in supervisor.status().items()
        if status.state is TaskState.FAILED
    ]
    return [failed(subject, "; ".join(stopped)) if stopped else ok(subject, "all running")]


async def _silences(shards: ShownShards, clock: Clock, subject: str) -> list[CheckLine]:
    """Say how many pipelines are silenced; that is the wish of people, and no failure."""
    hosted, now = tuple(shards().values()), clock.now()
    silences = {
        silence.id: silence
        for shard in hosted
        for silence in shard.alerting.snapshot().silences
        if is_active(silence, now)
    }
    if not silences:
        return [ok(subject, "none is active")]
    workspaces = [status.workspace for shard in hosted for status in shard.live.workspaces()]
    pipelines = [
        (named.workspace, named.kind, named.id, named.label)
        for shard in hosted
        for named in shard.live.pipelines()
    ]
    # In a thread: there may be ten thousand pipelines.
    found = await asyncio.to_thread(
        silenced_of, silences.values(), workspaces=workspaces, pipelines=pipelines, now=now
    )
    if found.words is not None:
        return [warning(subject, f"{found.words}: a failure there notifies no one", _END_SOME)]
    return [ok(subject, f"{len(silences):,} active, of few pipelines")]


async def _polls(shards: ShownShards, clock: Clock, subject: str) -> list[CheckLine]:
    views = [shard.live for shard in shards().values()]
    workspaces = [workspace for view in views for workspace in view.workspaces()]
    down = [
        f"{workspace.workspace} is unreachable since {workspace.since:%Y-%m-%dT%H:%M:%SZ}"
        for workspace in workspaces
        if workspace.reachability is Reachability.UNREACHABLE and workspace.since is not None
    ]
    unwatched = [
        f"{workspace.workspace}: {cause.reason}"
        for workspace in workspaces
        for cause in workspace.unwatched_causes()
    ]
    problems = [*down, *unwatched, *_late(views, now=clock.monotonic())]
    return [failed(subject, "; ".join(problems)) if problems else ok(subject, "all recent")]


def _late(views: Sequence[ShownLiveState], *, now: float) -> list[str]:
    """Return a sentence about late polls, and one about workspaces that were never polled."""
    polls = [poll for view in views for poll in view.polls()]
    late = sorted(
        f"{poll.workspace}/{poll.poll} ({poll.last_outcome})"
        for poll in polls
        if poll.is_overdue(now)
    )
    answered = {poll.workspace for poll in polls if poll.last_success_at is not None}
    waiting = [
        workspace.workspace
        for view in views
        for workspace in view.workspaces()
        if workspace.workspace not in answered
    ]
    problems = {"late": late, "no poll has succeeded yet": waiting}
    return [f"{problem}: {', '.join(names)}" for problem, names in problems.items() if names]
