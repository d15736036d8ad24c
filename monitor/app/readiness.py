"""What must be well for the daemon to do what it is there for, one named check each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from monitor.app.outputs import Outputs
from monitor.bus.contract import Change, EventBus, Note
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.knowledge import Reachability
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.webhook.output import WebhookOutput
from monitor.supervisor import Supervisor, TaskState
from monitor.tracking.knowledge import KnowledgeView
from monitor.web.health import Check, Finding

_PROBE_SECONDS = 3.0
# No workspace can have this name, so the probe's note stands in nobody's way.
_PROBE = Note(workspace="bridge", topic="readiness", key="probe", value=b"")


async def probe_store(bus: EventBus) -> None:
    """Write a note that nobody reads.

    Raises:
        BusError: it could not be written, or not in time.
    """
    await bus.commit(Change(notes=(_PROBE,)), timeout_seconds=_PROBE_SECONDS)


def readiness_checks(
    *,
    bus: EventBus,
    view: KnowledgeView,
    clock: Clock,
    supervisor: Supervisor,
    outputs: Outputs,
) -> Mapping[str, Check]:
    """Return the checks of ``/readyz`` by name."""

    async def store() -> Finding:
        try:
            await probe_store(bus)
        except BusError as exc:
            return Finding(ok=False, detail=f"cannot be written: {exc}")
        return Finding(ok=True, detail="writable")

    async def polls() -> Finding:
        down = [
            f"{one.workspace} is unreachable since {one.since:%Y-%m-%dT%H:%M:%SZ}"
            for one in view.workspaces()
            if one.reachability is Reachability.UNREACHABLE and one.since is not None
        ]
        faults = [*down, *_late(view, now=clock.now())]
        return Finding(ok=not faults, detail="; ".join(faults) or "all recent")

    async def broker() -> Finding:
        if outputs.mqtt is None:
            return Finding(ok=True, detail="not configured")
        return Finding(ok=outputs.mqtt.is_connected, detail=outputs.mqtt.standing)

    async def receiver(output: AlertmanagerOutput | WebhookOutput) -> Finding:
        return Finding(ok=output.is_well, detail=output.standing)

    async def tasks() -> Finding:
        failed = [
            f"{name}: {standing.reason}"
            for name, standing in supervisor.standing().items()
            if standing.state is TaskState.FAILED
        ]
        return Finding(ok=not failed, detail="; ".join(failed) or "all running")

    receivers = {one.name: partial(receiver, one) for one in outputs.posting}
    return {"store": store, "polls": polls, "mqtt": broker, **receivers, "tasks": tasks}


def _late(view: KnowledgeView, *, now: datetime) -> list[str]:
    """Return a sentence about polls that should have succeeded by now, and one about first ones."""
    late = sorted(
        f"{one.workspace}/{one.poll} ({one.last_outcome})"
        for one in view.polls()
        if one.is_expected_by is not None and one.is_expected_by < now
    )
    answered = {one.workspace for one in view.polls() if one.last_success_at is not None}
    waiting = [one.workspace for one in view.workspaces() if one.workspace not in answered]
    told = {"late": late, "no poll has succeeded yet": waiting}
    return [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
