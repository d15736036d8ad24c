"""The flows that should have a webhook task, by the settings and by the workspace's lists."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from monitor.callbacks.settings import CallbackSettings
from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NotAvailableError, TryLaterError, WorkspaceError
from monitor.model.live_state import NamedPipeline
from monitor.model.runs import PipelineKind
from monitor.tracking.live_state import LiveState

log = structlog.get_logger()

NAMES_POLL = "names"  # the poll that lists the flows


class ConfiguredFlows:
    """Reads the settings and the live state of one workspace; sends no request."""

    def __init__(
        self, workspace: str, *, settings: CallbackSettings, live_state: LiveState
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._live_state = live_state
        self._unmatched: frozenset[str] = frozenset()  # names in the settings that fit no flow
        self._named: tuple[NamedPipeline, ...] | None = None  # the source of `_by_id`
        self._by_id: dict[str, NamedPipeline] = {}

    @property
    def is_switched_on(self) -> bool:
        """True where the settings say how the workspace reaches us."""
        return self._settings.public_url is not None and self._settings.secret is not None

    def unavailable(self) -> WorkspaceError | None:
        """Return why no task can be made or removed at all; None where work can begin."""
        status = self._live_state.workspaces[self._workspace]
        if status.edition is None:
            return TryLaterError("the capabilities of the workspace are not known yet")
        if not self.is_switched_on:
            return None
        if Capability.CREATE_WEBHOOK_TASKS not in status.capabilities:
            return NotAvailableError("webhook tasks cannot be made here: the capability is missing")
        names = self._live_state.polls.get((self._workspace, NAMES_POLL))
        if names is None or names.last_success_at is None:
            # Until then an unknown flow may exist, and its task must not be removed.
            return TryLaterError("the flows of the workspace have not been listed yet")
        return None

    def is_listed(self, flow_id: str) -> bool:
        """True while the workspace lists the flow."""
        return self._listed(flow_id) is not None

    def get(self, flow_id: str) -> NamedPipeline | None:
        """Return the flow if it should have a task."""
        flow = self._listed(flow_id)
        return flow if flow is not None and self._is_configured(flow) else None

    def by_id(self) -> Mapping[str, NamedPipeline]:
        """Return the flows that should have a task, by id. Equal names all count."""
        named = self._live_state.names.all()
        if named is not self._named:
            self._named = named
            self._by_id = {
                pipeline.id: pipeline
                for pipeline in named
                if pipeline.workspace == self._workspace
                and pipeline.kind is PipelineKind.FLOW
                and self._is_configured(pipeline)
            }
        return self._by_id

    def warn_of_unmatched(self, flows: Mapping[str, NamedPipeline]) -> None:
        """Log each name in the settings that fits no flow, once while that lasts."""
        matched = {"*"} | {text for flow in flows.values() for text in (flow.id, flow.name or "")}
        configured = frozenset(self._settings.flows) if self.is_switched_on else frozenset()
        unmatched = configured - matched
        for name in sorted(unmatched - self._unmatched):
            log.warning("no flow has this id or name", workspace=self._workspace, flow=name)
        self._unmatched = unmatched

    def _listed(self, flow_id: str) -> NamedPipeline | None:
        return self._live_state.names.get((self._workspace, PipelineKind.FLOW, flow_id))

    def _is_configured(self, flow: NamedPipeline) -> bool:
        flows = self._settings.flows
        return self.is_switched_on and ("*" in flows or flow.id in flows or flow.name in flows)
