"""What every poll of one workspace works with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import msgspec

from monitor.bus.contract import EventBus, Note
from monitor.catalogue.capabilities import Capability
from monitor.model.clock import Clock
from monitor.model.knowledge import Reachability
from monitor.model.runs import RunKey, RunKind
from monitor.polling.settings import BeyondSettings, PollSettings
from monitor.tracking.knowledge import Knowledge
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """One workspace that is followed, and all that is needed to follow it."""

    client: WorkspaceClient
    observer: Observer
    knowledge: Knowledge
    bus: EventBus
    clock: Clock
    settings: PollSettings
    beyond: BeyondSettings | None = None  # None: nothing is read beyond runs

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

    def note(self, topic: str, key: str, value: bytes | None) -> Note:
        return Note(workspace=self.name, topic=topic, key=key, value=value)

    def know_beyond(self, **changes: object) -> None:
        """Overwrite some of what is known beyond runs."""
        before = self.knowledge.workspaces[self.name].beyond
        after = msgspec.structs.replace(before, **changes)
        self.knowledge.update_workspace(self.name, beyond=after)

    def holds_until(self) -> datetime:
        """Return until when what is read now may be shown, should the next reading fail."""
        seconds = 0.0 if self.beyond is None else self.beyond.interval_seconds
        return self.clock.now() + timedelta(seconds=3 * seconds)

    def can(self, capability: Capability) -> bool:
        return capability in self.knowledge.workspaces[self.name].capabilities

    def is_unproven(self) -> bool:
        """True before the workspace has shown what it offers."""
        return self.knowledge.workspaces[self.name].edition is None

    def is_unreachable(self) -> bool:
        """True while nothing answers: then a failure says nothing about what was asked for."""
        standing = self.knowledge.workspaces[self.name]
        return standing.reachability is Reachability.UNREACHABLE

    def followed_since(self) -> datetime | None:
        return self.knowledge.workspaces[self.name].followed_since

    def workspace_now(self) -> datetime:
        """Return the workspace's time, ours where it has never told its own."""
        return self.client.workspace_now() or self.clock.now()

    def active_keys(self, kind: RunKind) -> list[RunKey]:
        """Return the active runs of one kind, the one confirmed longest ago first."""
        active = [
            one
            for key, one in self.knowledge.active.items()
            if key.workspace == self.name and key.kind is kind
        ]
        return [one.run.key for one in sorted(active, key=lambda one: one.confirmed_at)]

    def has_active_runs(self) -> bool:
        return any(key.workspace == self.name for key in self.knowledge.active)
