"""How well a workspace answers, derived from the outcomes of its polls."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from monitor.model.errors import (
    BusError,
    LeaseUncertainError,
    MonitorError,
    WorkspaceUnreachableError,
)
from monitor.model.live_state import ClockSetBack, Reachability
from monitor.model.runs import RunKind
from monitor.polling.context import PollContext

log = structlog.get_logger()

# A ``Date`` is known to the second, and the first poll begins within that of following.
_CLOCK_SLACK = timedelta(seconds=5)
# Clocks are corrected by less than this all the time.
_CLOCK_STEP = timedelta(seconds=60)
# A 5xx of one operation shows little about the others: so many must fail in a row.
_OPERATIONS_FOR_UNREACHABLE = 2
# Stands among the polls for requests that got no answer and are tried again.
_SILENCE = "no answer"


class ReachabilityJudge:
    """Writes a workspace's reachability, and the reason for it, into what is known."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._polls: set[str] = set()
        self._failing: dict[str, MonitorError] = {}
        # Since anything last succeeded: the polls that got no answer, and from what operation.
        self._down: dict[str, str | None] = {}
        self._limitation: str | None = None
        # The workspace's time when it was seen last, and the latest that was seen twice: one odd
        # header shows nothing.
        self._at: datetime | None = None
        self._latest: datetime | None = None
        context.client.requester.on_silence(self.silence)

    def limited(self, reason: str | None) -> None:
        """The capabilities were published; ``reason`` is why some of them are not there.

        It is shown when nothing else is wrong: what was never offered is no failure.
        """
        self._limitation = reason
        status = self._context.live_state.workspaces[self._context.name]
        if status.reachability in (Reachability.REACHABLE, Reachability.DEGRADED):
            self._write(self._answering())

    def succeeded(self, poll: str) -> None:
        """One poll came to its end, so the workspace answers."""
        self._polls.add(poll)
        self._failing.pop(poll, None)
        self._watch_clock()
        self._answers()

    def recovered(self, poll: str) -> None:
        """One poll has nothing to request any more; its own failure is over all the same."""
        if self._failing.pop(poll, None) is not None and not self._is_unreachable():
            self._write(self._answering())

    def dropped(self, poll: str) -> None:
        """One poll reads what is no longer served; it shows nothing from now on."""
        self._polls.discard(poll)
        self._down.pop(poll, None)
        if self._failing.pop(poll, None) is not None and not self._failing and not self._down:
            self._write(self._answering())

    def failed(self, poll: str, error: MonitorError) -> None:
        """One poll failed. A failure of our own store shows nothing about the workspace."""
        self._polls.add(poll)
        if isinstance(error, BusError | LeaseUncertainError):
            return
        self._failing[poll] = error
        self._failing.pop(_SILENCE, None)  # the poll says it better
        # Our own budget, the workspace's quota and rows to be read again are no outage.
        if not isinstance(error, WorkspaceUnreachableError):
            self._write(Reachability.DEGRADED)
            return
        self._down[poll] = error.operation_id
        enough = min(_OPERATIONS_FOR_UNREACHABLE, len(self._polls))
        is_silent = error.status_code is None
        is_unreachable = is_silent or len(set(self._down.values())) >= enough
        self._write(Reachability.UNREACHABLE if is_unreachable else Reachability.DEGRADED)

    def silence(self, error: WorkspaceUnreachableError | None) -> None:
        """A request waited in vain, and is tried again; or, with None, something is answered."""
        if error is None:
            self._answers()
        elif not self._is_unreachable():
            self._failing[_SILENCE] = error
            self._write(Reachability.UNREACHABLE)

    def _answers(self) -> None:
        if self._is_unreachable():
            # They failed because nothing answered; their next attempt shows what is true now.
            for other in self._down:
                self._failing.pop(other, None)
        self._failing.pop(_SILENCE, None)
        self._down.clear()
        self._write(self._answering())

    def _is_unreachable(self) -> bool:
        status = self._context.live_state.workspaces[self._context.name]
        return status.reachability is Reachability.UNREACHABLE

    def _answering(self) -> Reachability:
        is_whole = not self._failing and not self._unwatched()
        return Reachability.REACHABLE if is_whole else Reachability.DEGRADED

    def _unwatched(self) -> list[str]:
        """Return why a part of the workspace, which answers, cannot be watched."""
        status = self._context.live_state.workspaces[self._context.name]
        return [cause.reason for cause in status.unwatched_causes()]

    def _watch_clock(self) -> None:
        """Notice that the workspace's clock was set back, until it has passed its former time.

        Ends of now then sort before those of before. Behind the start of following a run that is
        first seen at its end is even taken for an old one, and emits no event.
        """
        context, now = self._context, self._context.clock.now()
        status, at = context.live_state.workspaces[context.name], context.client.workspace_now()
        if status.followed_since is None or at is None:
            return
        certain = min(at, self._at or at)
        self._at, self._latest = at, max(certain, self._latest or certain)
        is_old = status.followed_since - at > _CLOCK_SLACK
        if not is_old and self._latest - at <= _CLOCK_STEP:
            if status.clock_set_back is not None:
                log.info("workspace clock has passed its former time", workspace=context.name)
                context.live_state.update_workspace(context.name, clock_set_back=None)
            return
        if status.clock_set_back is not None:
            return
        former = max(status.followed_since, self._latest)
        log.warning(
            "workspace clock was set back",
            workspace=context.name,
            followed_since=status.followed_since,
            behind_seconds=round((former - at).total_seconds()),
        )
        effect = "are taken for old ones" if is_old else "are ordered before those of before"
        reason = (
            f"the workspace's clock shows {at:%Y-%m-%dT%H:%M:%SZ} after it had shown "
            f"{former:%Y-%m-%dT%H:%M:%SZ}: runs that end now {effect}"
        )
        unwatched = tuple(RunKind) if is_old else ("order of ends",)
        set_back = ClockSetBack(since=now, reason=reason, unwatched=unwatched)
        context.live_state.update_workspace(context.name, clock_set_back=set_back)

    def _write(self, reachability: Reachability) -> None:
        context, now = self._context, self._context.clock.now()
        status = context.live_state.workspaces[context.name]
        since = status.since if status.reachability is reachability else now
        context.live_state.update_workspace(
            context.name,
            reachability=reachability,
            since=since,
            known_at=now,
            is_remembered=False,
            reason=self._reason(),
            clock_skew_seconds=context.client.requester.clock_skew_seconds,
            budgets=context.client.requester.budgets(),
        )

    def _reason(self) -> str | None:
        failing = [f"{poll}: {error}" for poll, error in sorted(self._failing.items())]
        return "; ".join([*self._unwatched(), *failing]) or self._limitation
