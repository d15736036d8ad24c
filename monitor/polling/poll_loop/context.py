"""The context of a poll: all that the polls of one workspace work with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import msgspec

from monitor.bus.contract import EventBus, StateEntry
from monitor.catalogue.capabilities import Capability
from monitor.model.clock import Clock
from monitor.model.live_state import Reachability
from monitor.model.runs import RunKey, RunKind
from monitor.model.waits import happens_within
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class PollContext:
    """One workspace, and all that its polls work with."""

    client: WorkspaceClient
    observer: Observer
    live_state: LiveState
    bus: EventBus
    clock: Clock
    settings: PollSettings
    inventory: InventorySettings | None = None  # None: no inventory is read

    @property
    def name(self) -> str:
        return self.client.settings.name

    @property
    def page_url(self) -> str:
        """The address under which people see the workspace; its API lives below ``api.``."""
        parts = urlsplit(self.client.settings.url)
        host = (parts.hostname or "").removeprefix("api.")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}"

    def key(self, kind: RunKind, run_id: str) -> RunKey:
        return RunKey(workspace=self.name, kind=kind, id=run_id)

    def state_entry(self, topic: str, key: str, value: bytes | None) -> StateEntry:
        return StateEntry(workspace=self.name, topic=topic, key=key, value=value)

    def update_inventory(self, **changes: object) -> None:
        """Overwrite some fields of the workspace's inventory."""
        before = self.live_state.workspaces[self.name].inventory
        after = msgspec.structs.replace(before, **changes)
        self.live_state.update_workspace(self.name, inventory=after)

    def holds_until(self) -> datetime:
        """Return until when what is read now may be shown, should the next reading fail."""
        seconds = 0.0 if self.inventory is None else self.inventory.interval_seconds
        return self.clock.now() + timedelta(seconds=3 * seconds)

    def can(self, capability: Capability) -> bool:
        return capability in self.live_state.workspaces[self.name].capabilities

    def is_refused(self, capability: Capability) -> bool:
        """True where the workspace offered it before and refuses it now."""
        refused = self.live_state.workspaces[self.name].refused
        return any(known.capability == capability for known in refused)

    def is_unproven(self) -> bool:
        """True before the workspace's capabilities are known."""
        return self.live_state.workspaces[self.name].edition is None

    def is_unreachable(self) -> bool:
        """True while nothing answers: then a failure shows nothing about what was read."""
        status = self.live_state.workspaces[self.name]
        return status.reachability is Reachability.UNREACHABLE

    def is_cut_off(self) -> bool:
        """True while the workspace as a whole is unusable: `Recovery` alone sends requests."""
        return not self.client.requester.answering.is_set()

    async def until_answering(self) -> None:
        """Return while the workspace is not cut off."""
        while self.is_cut_off():
            await happens_within(
                self.client.requester.answering.wait(),
                clock=self.clock,
                seconds=self.settings.reconcile_seconds,
                name="waiting for the end of an outage",
            )

    def can_read_in_time(self, priority: Priority, *, ahead: int = 0) -> bool:
        """True where an end that waits for a read may see it; see `RequestBudget`."""
        seconds = self.settings.detail_wait_seconds
        turn = self.client.requester.budget.seconds_until_turn
        return seconds > 0 and turn(priority, ahead=ahead) <= seconds

    def first_at_once(self, poll: str, usual: Priority) -> Priority:
        """Return for what the lists of a poll count: until it has succeeded it is unknown."""
        status = self.live_state.polls.get((self.name, poll))
        is_first = status is None or status.last_success_at is None
        return Priority.CHANGES if is_first else usual

    def followed_since(self) -> datetime | None:
        return self.live_state.workspaces[self.name].followed_since

    def our_time(self, mark: float) -> datetime:
        """Return our time at a monotonic mark of before, by the clock as it is set now."""
        return self.clock.now() - timedelta(seconds=self.clock.monotonic() - mark)

    def workspace_now(self) -> datetime:
        """Return the workspace's time, ours before its first answer."""
        return self.client.workspace_now() or self.clock.now()

    def all_active_keys(self) -> frozenset[RunKey]:
        name = self.name
        return frozenset(key for key in self.live_state.active if key.workspace == name)

    def active_keys(self, kind: RunKind) -> list[RunKey]:
        """Return the active runs of one kind, the one confirmed longest ago first."""
        name = self.name
        active = [
            active_run
            for key, active_run in self.live_state.active.items()
            if key.kind is kind and key.workspace == name
        ]
        return [
            active_run.run.key
            for active_run in sorted(active, key=lambda active_run: active_run.confirmed_at)
        ]

    def has_active_runs(self, kinds: Collection[RunKind]) -> bool:
        """True where a run of these kinds has not ended."""
        name = self.name
        return any(key.kind in kinds and key.workspace == name for key in self.live_state.active)
