"""Ends active runs that the workspace denies, unless all that was known has vanished at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import structlog
from msgspec import Struct

from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.polling.flow_runs.flow_runs import FlowRuns
from monitor.polling.lists.hidden_runs import Recognition
from monitor.polling.lists.list_check import ALL_AT_ONCE, ListChecks
from monitor.polling.poll_loop.context import PollContext

log = structlog.get_logger()


class _Denial(Struct, frozen=True, kw_only=True):
    """When the workspace denied a run. Monotonic."""

    at: float  # when the reading that met it began
    ended: float  # when that reading ended
    beside: frozenset[RunKey]  # what was active when it began


class DeniedRuns:
    """Active runs that were denied by their ids; what two reconciliations find so is lost."""

    def __init__(self, context: PollContext, *, checks: ListChecks, flow_runs: FlowRuns) -> None:
        self._context = context
        self._checks = checks
        self._flow_runs = flow_runs
        self._denied: list[RunKey] = []  # in the reading that is under way
        self._denials: dict[RunKey, _Denial] = {}

    def add(self, key: RunKey) -> None:
        """The workspace denied an active run; `end` decides what that means."""
        self._denied.append(key)

    async def end(self, *, began: float, held: frozenset[RunKey]) -> None:
        """End as lost what this reading and an earlier one, a reconciliation apart, were denied.

        ``began`` is when the reading began, monotonic: what was shown since counts. ``held`` was
        active then.

        Raises:
            DoubtedListError: no run that was known is shown any more, so none has ended.
        """
        active = self._context.live_state.active
        denied, self._denied = [key for key in self._denied if key in active], []
        self._denials = {key: denial for key, denial in self._denials.items() if key in active}
        due = [key for key in denied if self._is_denied_again(key, began, held)]
        vanished = self._vanished(began, held) if denied else frozenset[RunKind]()
        if vanished and await self._are_unshared(denied):
            vanished = frozenset()
        if vanished:
            self._doubt(vanished, began)
        for kind, check in self._checks.of_runs.items():
            if kind not in vanished:
                check.clear([key.id for key in denied if key.kind is kind])
        status = self._context.live_state.workspaces[self._context.name]
        for key in due:
            # What refuses or shortens a list may deny ids as well.
            if key.kind not in vanished and status.why_unwatched(key.kind) is None:
                await self._lose(key)
        for kind in vanished & self._checks.of_runs.keys():
            self._checks.of_runs[kind].require()

    async def _are_unshared(self, denied: Sequence[RunKey]) -> bool:
        """True where these are denied because their pipelines are hidden as well."""
        for kind in RunKind:
            left = {key.id for key in denied if key.kind is kind}
            while left:  # pipelines are read a few at a time
                explained = await self._checks.unshared.explain(kind, left)
                if not explained:
                    return False
                left -= explained
        return True

    def _is_denied_again(self, key: RunKey, began: float, held: frozenset[RunKey]) -> bool:
        """Remember the denial; True where an earlier one is a reconciliation apart."""
        shown_at = self._context.live_state.active[key].confirmed_at
        ended = self._context.clock.monotonic()
        denial = _Denial(at=began, ended=ended, beside=held)
        first = self._denials.setdefault(key, denial)
        if first is not denial and shown_at > self._context.our_time(first.ended):
            # The run was observed since, so the first denial was wrong.
            first = self._denials[key] = denial
        # Where runs are read more often than they are reconciled, the second denial must be as far
        # from the first as a reconciliation would be; half of it leaves room for jitter.
        apart = denial.at - first.at
        is_again = first is not denial and apart >= self._context.settings.reconcile_seconds / 2
        if not is_again:
            log.info("active run denied by the workspace", run=str(key))
        return is_again

    async def _lose(self, key: RunKey) -> None:
        gone = Observation(
            key=key,
            source=Source.RECONCILIATION,
            observed_at=self._context.clock.now(),
            is_gone=True,
        )
        await self._context.observer.observe((gone,))
        log.warning("active run lost", run=str(key))
        self._denials.pop(key, None)
        if key.kind in self._checks.of_runs:
            self._checks.of_runs[key.kind].clear((key.id,))
        if key.kind is RunKind.FLOW_RUN:
            self._flow_runs.forget(key.id)

    def _vanished(self, began: float, held: frozenset[RunKey]) -> frozenset[RunKind]:
        """Return the kinds with many active runs, no known one of them shown since denials.

        A workspace that has forgotten them all is hardly the one in which they ran. Few runs of a
        kind have vanished where all of the other kinds have.
        """
        checks = self._checks
        kinds = frozenset(RunKind)
        have_vanished = partial(self._have_vanished, began=began, held=held)
        if have_vanished(kinds, checks.any_run, at_least=ALL_AT_ONCE):
            return kinds
        # A flow run may answer while its job groups do not, but not the other way round.
        of_flows = frozenset({RunKind.JOB_GROUP, RunKind.FLOW_RUN})
        vanished = frozenset[RunKind]()
        groups = {RunKind.JOB_GROUP: of_flows, RunKind.PLAN_RUN: kinds - of_flows}
        for at_least in (ALL_AT_ONCE, 1):  # few of the others vanish beside many of one kind
            for kind, group in groups.items() if vanished or at_least > 1 else ():
                if have_vanished(group, checks.known_runs[kind], at_least=at_least):
                    vanished |= group
        return vanished

    def _have_vanished(
        self,
        kinds: frozenset[RunKind],
        recognition: Recognition,
        *,
        began: float,
        held: frozenset[RunKey],
        at_least: int,
    ) -> bool:
        denials = [denial for key, denial in self._denials.items() if key.kind in kinds]
        if not denials:
            return False
        # Asked for before the first of them was denied, it may be of just before they vanished.
        first = min((each for each in denials if each.at < began), key=_ended, default=None)
        # What appeared after that denial has not vanished with it.
        beside = held if first is None else first.beside
        active = self._context.live_state.active
        if sum(key.kind in kinds and key in active for key in beside) < at_least:
            return False
        return not recognition.is_since(began if first is None else first.ended)

    def _doubt(self, kinds: frozenset[RunKind], began: float) -> None:
        """Doubt the lists of these kinds; their denials count for nothing until one is shown."""
        ended = self._context.clock.monotonic()
        for key, denial in self._denials.items():
            if key.kind in kinds:
                self._denials[key] = msgspec.structs.replace(denial, at=began, ended=ended)
        for kind in kinds & self._checks.of_runs.keys():
            self._checks.of_runs[kind].doubt(
                [key.id for key in self._context.active_keys(kind)],
                "active runs are denied, and no run that was known is shown",
            )


def _ended(denial: _Denial) -> float:
    return denial.ended
