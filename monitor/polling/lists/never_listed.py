"""Runs that no list ever shows, although it shows others: what is not named is not seen of them.

A list may show a run late, so one counts when two reconciliations, each after its list, found it
active by its id alone. It counts for a day after that, unless a list shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import structlog

from monitor.model.live_state import UnlistedRuns
from monitor.model.runs import RunKind, Source
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.poll_loop.context import PollContext

log = structlog.get_logger()

_KEPT_SECONDS = 86_400.0
_KEPT = 1_000  # runs of a kind
_NAMED = 3


class NeverListed:
    """Keeps them in memory: after a restart they are found again while they run."""

    def __init__(self, context: PollContext, written: Mapping[RunKind, ExpectedRows]) -> None:
        self._context = context
        self._written = written
        self._omitted: dict[RunKind, set[str]] = {}  # by the last reconciliation
        self._found: dict[RunKind, dict[str, float]] = {kind: {} for kind in written}  # monotonic

    def reconciled(
        self,
        kind: RunKind,
        listed: Collection[str],
        held: Mapping[str, str | None],
        *,
        asked_at: datetime,
    ) -> None:
        """Compare what a list of active runs shows with those ``held`` that were read since."""
        context, found = self._context, self._found[kind]
        omitted: set[str] = set()
        if not held.keys().isdisjoint(listed):
            for run_id in held.keys() - set(listed):
                active = context.live_state.active.get(context.key(kind, run_id))
                is_read = active is not None and active.confirmed_by is Source.RECONCILIATION
                if active is not None and is_read and active.confirmed_at >= asked_at:
                    omitted.add(run_id)
        now = context.clock.monotonic()
        found |= dict.fromkeys(omitted & self._omitted.get(kind, set()), now)
        self._omitted[kind] = omitted
        newest = sorted(found, key=lambda run_id: found[run_id])[-_KEPT:]
        self._found[kind] = {
            run_id: found[run_id]
            for run_id in newest
            if now - found[run_id] < _KEPT_SECONDS and not self._was_listed(kind, run_id)
        }
        self._publish()

    def _was_listed(self, kind: RunKind, run_id: str) -> bool:
        return self._written[kind].was_listed(run_id)

    def _publish(self) -> None:
        context = self._context
        unlisted = tuple(
            UnlistedRuns(kind=kind, ids=tuple(sorted(found)[:_NAMED]), count=len(found))
            for kind, found in self._found.items()
            if found
        )
        if unlisted != context.live_state.workspaces[context.name].unlisted:
            counts = {str(runs.kind): runs.count for runs in unlisted}
            log.info("unlisted runs changed", workspace=context.name, **counts)
            context.live_state.update_workspace(context.name, unlisted=unlisted)
