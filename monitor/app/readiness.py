"""The readiness checks, by name: what the daemon needs to do its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from monitor.bus.contract import EventBus, WriteFailures
from monitor.bus.shards import ShardStore
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.live_state import Reachability
from monitor.outputs.records import RECORDS
from monitor.supervisor import Supervisor, TaskState
from monitor.tracking.live_state import LiveStateView
from monitor.web.daemon_status import OutputStatus, worst_outputs
from monitor.web.health import STARTING, Check, HealthFinding
from monitor.web.shown_shards import ShownShard, ShownShards

_PROBE_SECONDS = 3.0
# After the last write that the store refused, and only if it has stored another since.
_TROUBLE_SECONDS = 60.0


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
    cluster: Check | None,
    has_started: Callable[[], bool],
    clock: Clock,
    supervisor: Supervisor,
) -> Callable[[], Mapping[str, Check]]:
    """Return what gives the checks of ``/readyz`` by name; a reload changes the outputs.

    ``shards`` are those that this daemon holds; ``cluster`` None: it does not share the store.
    """

    async def writes() -> HealthFinding:
        try:
            await probe_store(store)
            statuses = [await shard.bus.status() for shard in shards().values()]
        except BusError as exc:
            return HealthFinding(ok=False, detail=f"cannot be written: {exc}")
        findings = [_judged(status.write_failures) for status in statuses]
        return next((finding for finding in findings if not finding.ok), _judged(None))

    async def starting() -> HealthFinding:
        return HealthFinding(ok=False, detail=f"{len(shards()):,} shards have started so far")

    async def output(name: str) -> HealthFinding:
        found = _outputs(shards()).get(name)
        if found is None:
            return HealthFinding(ok=True, detail="not configured")
        return HealthFinding(ok=found.is_well, detail=found.detail)

    async def tasks() -> HealthFinding:
        failed = [
            f"{name}: {status.reason}"
            for name, status in supervisor.status().items()
            if status.state is TaskState.FAILED
        ]
        return HealthFinding(ok=not failed, detail="; ".join(failed) or "all running")

    def checks() -> Mapping[str, Check]:
        usual = [record.section for record in RECORDS if record.is_usual]
        receivers = {name: partial(output, name) for name in [*usual, *_outputs(shards())]}
        more = {} if cluster is None else {"cluster": cluster}
        if not has_started():
            more[STARTING] = starting
        return {
            "store": writes,
            **more,
            "polls": partial(_polls, shards, clock),
            **receivers,
            "tasks": tasks,
        }

    return checks


async def _polls(shards: ShownShards, clock: Clock) -> HealthFinding:
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
    return HealthFinding(ok=not problems, detail="; ".join(problems) or "all recent")


def _outputs(shards: Mapping[str, ShownShard]) -> dict[str, OutputStatus]:
    return worst_outputs(output for shard in shards.values() for output in shard.outputs())


def _judged(failures: WriteFailures | None) -> HealthFinding:
    """Judge the store by what it was to store, because a probe fits also on a full disk."""
    if failures is None or (failures.is_over and failures.quiet_seconds >= _TROUBLE_SECONDS):
        return HealthFinding(ok=True, detail="writable")
    detail = (
        f"{failures.count:,} writes were refused since {failures.since:%Y-%m-%dT%H:%M:%SZ}, the "
        f"last {failures.quiet_seconds:.0f} s ago: {failures.reason}"
    )
    return HealthFinding(ok=False, detail=detail)


def _late(views: Sequence[LiveStateView], *, now: float) -> list[str]:
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
