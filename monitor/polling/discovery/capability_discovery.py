"""Discovers a workspace's capabilities: shown in live state, as events, and as one log line."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import structlog

from monitor.catalogue.capabilities import NEEDS, Capability, capabilities_of, without
from monitor.catalogue.operations import Edition
from monitor.model.errors import WorkspaceError
from monitor.model.inventory import Inventory
from monitor.model.waits import WakeSignal, backoff_seconds
from monitor.polling.discovery.answered_operations import AnsweredOperations
from monitor.polling.discovery.probe import NOTHING_PROVEN, PROBED, Finding, probe, reads_of
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, WhenDue, every
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.workspace.priority import Priority

log = structlog.get_logger()

# What was refused may be granted one day; tried rarely, for it is usually the edition.
_PROBE_SECONDS = 21_600.0
# What was there before may come back: a right given again, a subscription renewed.
_RETURN_SECONDS = 300.0
# A loss is probed at once, but many losses one by one are not.
_PROBE_GAP_SECONDS = 60.0
# Never offered is unavailable; offered before and not now is refused.
_AVAILABLE, _UNAVAILABLE, _REFUSED = "available", "unavailable", "refused"
_EDITION = "edition"
_HALF_SECONDS = 30.0
_HALVES = 6  # probes in a row with half the answers, after which no more is waited for
# What each of these capabilities has read; without it that may no longer be true.
_READ_BY: Mapping[Capability, str] = {
    Capability.COUNT_OBJECTS: "objects",
    Capability.READ_CONNECTIONS: "connections",
    Capability.READ_TOKENS: "tokens",
    Capability.READ_USAGE: "usage",
    Capability.READ_PROFILES: "outputs",
}
_BY_ID_ONLY = (
    "runs cannot be listed here; only those are followed that a callback, the operator or the "
    "configuration names"
)
_NOT_AT_ALL = (
    "runs cannot be followed here: no operation that reads them is available; "
    "what can be read of flows and the specification is read on"
)


class CapabilityDiscovery:
    """The workspace's capabilities, found by probing and corrected by every refused read.

    The poll of the probe alone publishes them. What it could not store has not changed, and is
    found again: a loss after the next attempt of any poll, what has come back by the next probe.
    """

    def __init__(self, context: PollContext, reachability: ReachabilityJudge) -> None:
        self._context = context
        self._reachability = reachability
        self._answered = AnsweredOperations(context)
        self._switched_off: frozenset[str] = frozenset()
        self._ever: frozenset[Capability] = frozenset()  # what the workspace has had so far
        self._ever_lost: frozenset[Capability] = frozenset()
        self._proof = NOTHING_PROVEN
        self._unproven: frozenset[str] = frozenset()  # what is not learned yet
        self._half_answers = 0  # probes in a row that had no more
        self._misses = 0  # probes in a row that found less than that
        self._due_at = context.clock.monotonic()
        self._probed_at: float | None = None
        self._has_refusal = False  # noticed since the poll began last
        self.wake = WakeSignal(context.clock)

    def declared(self) -> tuple[Poll, ...]:
        return (
            Poll(
                name="specification",
                priority=Priority.INVENTORY,
                timing=every(self._context.settings.reconcile_seconds),
                run=self.read_specification,
            ),
            Poll(
                name="probe",
                priority=Priority.CHANGES,
                timing=WhenDue(seconds_until_due=self.seconds_until_due, wake=self.wake),
                run=self.poll,
            ),
        )

    async def read_specification(self) -> bool:
        """Read what every edition serves; False, and nothing is read, where changes are listed.

        Without a list it shows whether the workspace answers at all.
        """
        if self._context.can(Capability.LIST_CHANGES):
            return False
        await self._context.client.operations.open_api_spec(priority=Priority.INVENTORY)
        return True

    def notice_refused(self) -> None:
        """Wake the poll where a read has found an operation to be unavailable since."""
        if self._context.client.requester.unavailable != self._switched_off:
            self._has_refusal = True
            self.wake.set()

    def seconds_until_due(self) -> float:
        """Return when the workspace should be probed again; 0 where a refusal was noticed."""
        return 0.0 if self._has_refusal else self._seconds_until_probe()

    async def poll(self) -> bool:
        """Probe the workspace if that is due, else switch off what was refused.

        Return False where nothing was requested. Raises as `discover`.
        """
        self._has_refusal = False
        if self._seconds_until_probe() > 0:
            return await self.switch_off_refused()
        await self.discover()
        return True

    async def discover(self, *, doubted: frozenset[str] = frozenset()) -> None:
        """Probe the workspace, publish its capabilities, and schedule the next probe.

        ``doubted`` are operations to be read as well. A call that is cancelled or fails leaves the
        last result in place.

        Raises:
            WorkspaceError: it cannot be read now.
            BusError: what changed could not be stored.
        """
        context = self._context
        self._probe_again(after_seconds=context.settings.reconcile_seconds)
        self._probed_at = context.clock.monotonic()
        stored = await context.observer.changes.last(context.name)
        shown = context.live_state.workspaces[context.name].edition
        edition = shown or stored.get(_EDITION)
        offered = {need: stored[_key(need)] == _AVAILABLE for need in NEEDS if _key(need) in stored}
        await self._answered.load()
        finding = await probe(
            context.client,
            before=Edition(edition) if edition else None,
            answered=self._answered.operations,
            earlier=self._proof,
            offered=offered,
            doubted=doubted,
        )
        self._proof, finding = finding.proof, _less_refused(finding, offered)
        unavailable = context.client.requester.unavailable
        is_less = bool(self._ever - finding.capabilities or self._answered.operations & unavailable)
        self._ever |= finding.capabilities
        self._misses = self._misses + 1 if is_less else 0
        wait = self._seconds_until_next(finding)
        self._unproven = self._without_proof(finding, stored)
        await self._publish(
            finding.capabilities, edition=str(finding.edition), reason=finding.reason
        )
        self._probe_again(after_seconds=wait)
        self._switched_off = unavailable

    async def switch_off_refused(self) -> bool:
        """Switch off what a read has found to be unavailable since; True where that was probed.

        Where a capability rests on it, the workspace is probed at once: what was lost with it, as
        when a subscription is renewed, is then published together.

        Raises:
            BusError: what changed could not be stored.
        """
        unavailable, capabilities = self._context.client.requester.unavailable, self._capabilities()
        if unavailable == self._switched_off or without(capabilities, unavailable) == capabilities:
            self._switched_off = unavailable
            return False
        if not self._has_just_probed():
            try:
                await self.discover(doubted=reads_of(capabilities))
            except WorkspaceError as error:
                log.debug("probe failed", reason=str(error))
            else:
                return True
        left = without(capabilities, unavailable)
        self._unproven -= {_key(refused) for refused in capabilities - left}
        status = self._context.live_state.workspaces[self._context.name]
        await self._publish(left, edition=status.edition, reason=status.edition_reason)
        if (unavailable - self._switched_off) & PROBED:
            # A right withdrawn by mistake, or for a moment, must not blind us for hours.
            # Not put off by each further loss: a probe that is due sooner stays.
            wait = min(self._context.settings.reconcile_seconds, _PROBE_GAP_SECONDS)
            due = self._seconds_until_probe()
            self._probe_again(after_seconds=min(wait, due) if due > 0 else wait)
        self._switched_off = unavailable
        return False

    def _has_just_probed(self) -> bool:
        if self._probed_at is None:
            return False
        gap = min(_PROBE_GAP_SECONDS, self._context.settings.reconcile_seconds)
        return self._context.clock.monotonic() - self._probed_at < gap

    def _seconds_until_next(self, finding: Finding) -> float:
        if not finding.is_sure:
            # What the other half shows may be another edition.
            return backoff_seconds(
                self._half_answers + 1,
                base_seconds=_HALF_SECONDS,
                cap_seconds=self._context.settings.reconcile_seconds,
            )
        if not self._misses:
            return _PROBE_SECONDS
        return backoff_seconds(
            self._misses,
            base_seconds=self._context.settings.reconcile_seconds,
            cap_seconds=_RETURN_SECONDS,
        )

    def _probe_again(self, *, after_seconds: float) -> None:
        self._due_at = self._context.clock.monotonic() + after_seconds
        self.wake.set()

    def _without_proof(self, finding: Finding, stored: Collection[str]) -> frozenset[str]:
        """Return what half the answers cannot prove, and nothing was known of before.

        To learn it would make a change of the other half.
        """
        self._half_answers = 0 if finding.is_sure else self._half_answers + 1
        unproven = {_key(capability) for capability in finding.unproven}
        if _EDITION not in stored and 0 < self._half_answers < _HALVES:
            unproven = {_EDITION, *map(_key, NEEDS)}
        return frozenset(unproven.difference(stored))

    async def _publish(
        self, capabilities: frozenset[Capability], *, edition: str | None, reason: str | None
    ) -> None:
        """Show what the monitor can do once that is durable; the log has one line for all of it."""
        context = self._context
        refused = await self._answered.update(
            missing=capabilities_of(Edition(edition or Edition.OPEN)) - capabilities
        )
        names = {known.capability for known in refused}
        values = {_key(need): _REFUSED if need in names else _UNAVAILABLE for need in NEEDS}
        values.update((_key(need), _AVAILABLE) for need in capabilities)
        for what, value in [(_EDITION, edition), *sorted(values.items())]:
            if what not in self._unproven:
                await context.observer.changes.learn(context.name, what, value)
        status, before = context.live_state.workspaces[context.name], self._capabilities()
        # Schedules that are no longer shown are kept: a refusal is not their end.
        keeps_schedules = Capability.READ_SCHEDULES in capabilities | names
        context.live_state.update_workspace(
            context.name,
            edition=edition,
            edition_reason=reason,
            capabilities=frozenset(str(capability) for capability in capabilities),
            refused=refused,
            schedules=status.schedules if keeps_schedules else (),
            schedules_read_at=status.schedules_read_at if keeps_schedules else None,
            inventory=_still_read(status.inventory, capabilities),
        )
        self._reachability.limited(_limitation(capabilities))
        if (edition, capabilities) != (status.edition, before):
            log.info(
                "workspace capabilities changed",
                workspace=context.name,
                edition=edition,
                reason=reason,
                can=_named(capabilities),
                refused=sorted(names),
                lost=_named(before - capabilities),
                regained=_named((capabilities - before) & self._ever_lost),
                switched_off=_named(frozenset(NEEDS) - capabilities),
            )
        self._ever_lost |= before - capabilities

    def _seconds_until_probe(self) -> float:
        return max(0.0, self._due_at - self._context.clock.monotonic())

    def _capabilities(self) -> frozenset[Capability]:
        """Return what is published."""
        shown = self._context.live_state.workspaces[self._context.name].capabilities
        return frozenset(capability for capability in Capability if capability in shown)


def _key(capability: Capability) -> str:
    return f"capability:{capability}"


def _less_refused(finding: Finding, offered: Mapping[Capability, bool]) -> Finding:
    """Return the finding less what was refused before and has no answer now."""
    still = {capability for capability in finding.unproven if offered.get(capability) is False}
    return msgspec.structs.replace(finding, capabilities=finding.capabilities - still)


def _still_read(inventory: Inventory, capabilities: frozenset[Capability]) -> Inventory:
    nothing = Inventory()
    lost = [part for needs, part in _READ_BY.items() if needs not in capabilities]
    return msgspec.structs.replace(inventory, **{part: getattr(nothing, part) for part in lost})


def _named(capabilities: frozenset[Capability]) -> list[str]:
    return sorted(str(capability) for capability in capabilities)


def _limitation(capabilities: frozenset[Capability]) -> str | None:
    if Capability.LIST_CHANGES in capabilities:
        return None
    return _BY_ID_ONLY if Capability.FOLLOW_BY_ID in capabilities else _NOT_AT_ALL
