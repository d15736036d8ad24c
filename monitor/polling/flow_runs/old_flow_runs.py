"""Flow runs that ended before we followed and are still to be read: in which order. No I/O.

First the newest one of each flow, which shows how the flow is; then all others, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from monitor.model.observations import Observation
from monitor.workspace.priority import Priority

_AT_MOST = 1_000  # more are left out until these are read
_NEWEST_AT_ONCE = 12  # then those that were noticed meanwhile have their turn
_OTHERS_AT_ONCE = 4
_UNKNOWN = datetime.fromtimestamp(0, UTC)


class OldFlowRun(Struct, frozen=True, kw_only=True, gc=False):
    """What the job groups of a flow run show of it."""

    created_at: datetime
    flow_id: str | None


class OldFlowRuns:
    """Bounded. ``left_out``: when the newest of those was created for which there was no room."""

    def __init__(self) -> None:
        self._unread: dict[str, OldFlowRun] = {}
        self._read_flows: set[str | None] = set()
        self.left_out: datetime | None = None

    def __len__(self) -> int:
        return len(self._unread)

    def has_room(self, groups: Sequence[Observation]) -> bool:
        """True where one more may wait; else the flow run of these job groups is left out."""
        if len(self._unread) < _AT_MOST:
            return True
        created_at = _shown_by(groups).created_at
        self.left_out = max(created_at, self.left_out or created_at)
        return False

    def put(self, flow_run_id: str, groups: Sequence[Observation]) -> None:
        """Keep what these job groups show of a flow run; without any it is not old."""
        if not groups:
            self.forget(flow_run_id)
            return
        shown, known = _shown_by(groups), self._unread.get(flow_run_id)
        if known is None or shown.created_at > known.created_at:
            self._unread[flow_run_id] = shown

    def forget(self, flow_run_id: str) -> None:
        """The flow run was read, was given up, or is not old."""
        run = self._unread.pop(flow_run_id, None)
        if run is not None:
            self._read_flows.add(run.flow_id)

    def newest_of_flows(self) -> frozenset[str]:
        """Return the newest unread flow run of each flow without one that was read."""
        newest: dict[str | None, tuple[datetime, str]] = {}
        for flow_run_id, run in self._unread.items():
            place = run.created_at, flow_run_id
            newest[run.flow_id] = max(place, newest.get(run.flow_id, place))
        unread = (newest[flow_id][1] for flow_id in newest.keys() - self._read_flows)
        return frozenset(unread)

    def in_order(self, flow_run_ids: Iterable[str]) -> list[str]:
        """Return those of them that are to be read next, the most valuable first.

        Those that wait for room in the request budget are never among those that do not.
        """
        ids = list(flow_run_ids)
        newest = self.newest_of_flows().intersection(ids)

        def rank(flow_run_id: str) -> tuple[float, str]:
            run = self._unread.get(flow_run_id)
            return -run.created_at.timestamp() if run is not None else 0.0, flow_run_id

        chosen = sorted(newest or ids, key=rank)
        return chosen[: _NEWEST_AT_ONCE if newest else _OTHERS_AT_ONCE]

    def priority_of(self, flow_run_id: str) -> Priority:
        """Return for what a read of it counts: until the newest is known, its flow is unknown."""
        is_needed = flow_run_id in self.newest_of_flows()
        return Priority.ENDS if is_needed else Priority.INVENTORY

    def newest_unread(self) -> datetime | None:
        """Return when the newest unread one was created; None where all were read."""
        return max((run.created_at for run in self._unread.values()), default=None)


def _shown_by(groups: Sequence[Observation]) -> OldFlowRun:
    created = [group.created_at for group in groups if group.created_at is not None]
    flows = [group.pipeline.id for group in groups if group.pipeline is not None]
    return OldFlowRun(
        created_at=min(created, default=_UNKNOWN), flow_id=flows[0] if flows else None
    )
