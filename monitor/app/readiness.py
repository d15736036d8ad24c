"""The readiness checks, by name: what the daemon needs to do its work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from monitor.app.outputs import Outputs
from monitor.bus.contract import Change, EventBus, StateEntry
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.live_state import Reachability
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.webhook.output import WebhookOutput
from monitor.supervisor import Supervisor, TaskState
from monitor.tracking.live_state import LiveStateView
from monitor.web.health import Check, HealthFinding

_PROBE_SECONDS = 3.0
# No workspace can have this name, so the probe's state entry collides with none.
_PROBE = StateEntry(workspace="bridge", topic="readiness", key="probe", value=b"")


async def probe_store(bus: EventBus) -> None:
    """Write a state entry that nobody reads.

    Raises:
        BusError: it could not be written, or not in time.
    """
    await bus.commit(Change(state_entries=(_PROBE,)), timeout_seconds=_PROBE_SECONDS)


def readiness_checks(
    *,
    bus: EventBus,
    view: LiveStateView,
    clock: Clock,
    supervisor: Supervisor,
    outputs: Outputs,
) -> Mapping[str, Check]:
    """Return the checks of ``/readyz`` by name."""

    async def store() -> HealthFinding:
        try:
            await probe_store(bus)
        except BusError as exc:
            return HealthFinding(ok=False, detail=f"cannot be written: {exc}")
        return HealthFinding(ok=True, detail="writable")

    async def polls() -> HealthFinding:
        down = [
            f"{workspace.workspace} is unreachable since {workspace.since:%Y-%m-%dT%H:%M:%SZ}"
            for workspace in view.workspaces()
            if workspace.reachability is Reachability.UNREACHABLE and workspace.since is not None
        ]
        unwatched = [
            f"{workspace.workspace}: {cause.reason}"
            for workspace in view.workspaces()
            for cause in workspace.unwatched_causes()
        ]
        problems = [*down, *unwatched, *_late(view, now=clock.now())]
        return HealthFinding(ok=not problems, detail="; ".join(problems) or "all recent")

    async def broker() -> HealthFinding:
        if outputs.mqtt is None:
            return HealthFinding(ok=True, detail="not configured")
        return HealthFinding(ok=outputs.mqtt.is_connected, detail=outputs.mqtt.status)

    async def receiver(output: AlertmanagerOutput | WebhookOutput) -> HealthFinding:
        return HealthFinding(ok=output.is_well, detail=output.status)

    async def tasks() -> HealthFinding:
        failed = [
            f"{name}: {status.reason}"
            for name, status in supervisor.status().items()
            if status.state is TaskState.FAILED
        ]
        return HealthFinding(ok=not failed, detail="; ".join(failed) or "all running")

    receivers = {output.name: partial(receiver, output) for output in outputs.posting}
    return {"store": store, "polls": polls, "mqtt": broker, **receivers, "tasks": tasks}


def _late(view: LiveStateView, *, now: datetime) -> list[str]:
    """Return a sentence about late polls, and one about workspaces that were never polled."""
    late = sorted(
        f"{poll.workspace}/{poll.poll} ({poll.last_outcome})"
        for poll in view.polls()
        if poll.is_expected_by is not None and poll.is_expected_by < now
    )
    answered = {poll.workspace for poll in view.polls() if poll.last_success_at is not None}
    waiting = [
        workspace.workspace
        for workspace in view.workspaces()
        if workspace.workspace not in answered
    ]
    problems = {"late": late, "no poll has succeeded yet": waiting}
    return [f"{problem}: {', '.join(names)}" for problem, names in problems.items() if names]
