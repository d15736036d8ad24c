"""The webhook tasks that are ours, as the store remembers them: the API cannot list them."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entry

TASKS = "webhook_task"  # topic of the state entries, keyed by flow id

_COMMIT_SECONDS = 10.0


class OwnTask(Struct, frozen=True, kw_only=True):
    """One task that the registrar made. ``fingerprint`` changes with what it should contain."""

    flow_id: str
    task_id: str
    task_key: str
    created_at: datetime  # workspace time
    fingerprint: str


_DECODER = msgspec.json.Decoder(OwnTask)


async def own_tasks(bus: EventBus, workspace: str) -> dict[str, OwnTask]:
    """Return our tasks by flow id.

    Raises:
        BusSchemaError: one cannot be decode_entry. A second task in its place would call twice.
    """
    state_entries = await bus.state_entries(workspace, TASKS)
    return {
        flow: decode_entry(value, _DECODER, what=f"the webhook task of flow {flow!r}")
        for flow, value in state_entries.items()
    }


async def registered_at(bus: EventBus, workspace: str) -> dict[str, datetime]:
    """Return since when (workspace time) each flow has had a task of ours."""
    return {flow: task.created_at for flow, task in (await own_tasks(bus, workspace)).items()}


async def remember(bus: EventBus, workspace: str, task: OwnTask) -> None:
    """Keep a task; durable on return."""
    await _store(bus, workspace, task.flow_id, msgspec.json.encode(task))


async def forget(bus: EventBus, workspace: str, flow_id: str) -> None:
    """Drop a task; durable on return."""
    await _store(bus, workspace, flow_id, None)


async def _store(bus: EventBus, workspace: str, flow_id: str, value: bytes | None) -> None:
    entry = StateEntry(workspace=workspace, topic=TASKS, key=flow_id, value=value)
    await bus.commit(Change(state_entries=(entry,)), timeout_seconds=_COMMIT_SECONDS)
