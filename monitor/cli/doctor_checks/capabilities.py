"""What the workspace offers us: edition, capabilities, whose objects are seen, and how fast."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, TypeVar, cast

from msgspec import Struct

from monitor.catalogue.capabilities import Capability, capabilities_of, without
from monitor.catalogue.operations import Edition, operation
from monitor.cli.doctor_checks.lines import CheckLine, failed, ok, warning
from monitor.polling.discovery.probe import Finding
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.payloads import Page

_FOLLOWING = frozenset(
    {Capability.LIST_CHANGES, Capability.FOLLOW_BY_ID, Capability.LIST_PLAN_RUNS}
)


class FoundCapabilities(Struct, frozen=True, kw_only=True):
    """What a probe found, beside what is configured. ``refused`` are ids of operations."""

    configured: Edition | None
    finding: Finding
    refused: frozenset[str]

    @property
    def edition(self) -> Edition:
        """The one that the daemon goes by: a configured one is not doubted."""
        return self.configured or self.finding.edition

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the daemon can do there."""
        return without(capabilities_of(self.edition), self.refused)


def edition_line(offer: FoundCapabilities, subject: str) -> CheckLine:
    """Compare the edition found with the one configured."""
    found, configured = offer.finding.edition, offer.configured
    why = offer.finding.reason
    if not offer.finding.is_sure:
        found_so_far = f"{found} fits best so far, as not every read was answered ({why})"
        return warning(subject, found_so_far, "ask again later")
    if configured is None:
        return ok(subject, f"{found} is found: {why}")
    if configured is found:
        return ok(subject, f"{found}, as configured: {why}")
    hint = f'set edition = "{found}" or "auto" in [[workspaces]]'
    refused = sorted(item for item in offer.refused if operation(item).is_offered_in(configured))
    if configured is not Edition.OPEN and refused:
        return failed(
            subject,
            f"{configured} is configured and would have {', '.join(refused)}, refused here; "
            f"{found} fits best",
            f"{hint}, or give the token's owner these rights",
        )
    return warning(subject, f"{configured} is configured; {found} fits best: {why}", hint)


def capabilities_line(offer: FoundCapabilities, subject: str) -> CheckLine:
    """Say what is switched off, and why."""
    offered, able = capabilities_of(offer.edition), offer.capabilities
    refused = _named(offered - able)
    absent = _named(frozenset(Capability) - offered)
    told = [
        *([f"refused to this token: {refused}"] if refused else []),
        *([f"not part of edition {offer.edition}: {absent}"] if absent else []),
    ]
    off = f"switched off: {'; '.join(told)}"
    rights = "give the token's owner the right to read what is refused"
    if not able & _FOLLOWING or Capability.LIST_CHANGES in offered - able:
        hint = rights if refused else "no run can be seen in this edition; use another one"
        return failed(subject, off, hint)
    if Capability.LIST_CHANGES not in able:
        return warning(
            subject,
            off,
            "make webhook tasks by hand, or name runs in workspaces.poll.follow or with track",
        )
    if refused:
        return warning(subject, off, rights)
    return ok(subject, off if told else f"all {len(able)} are there")


class _Owned(Protocol):
    @property
    def owner_id(self) -> str | None: ...


_Row = TypeVar("_Row", bound=_Owned)


class _FirstPage(Struct, frozen=True, kw_only=True):
    """How many rows the first page has, and of how many owners."""

    rows: int
    owners: int
    is_whole: bool

    def __str__(self) -> str:
        return f"{self.rows}{'' if self.is_whole else ' and more'}"


async def check_lists(
    client: WorkspaceClient, subject: str, capabilities: frozenset[Capability]
) -> list[CheckLine]:
    """Say of how many people flows and plans are seen: these lists can be widened."""
    told: list[str] = []
    seen_rows = 0
    if Capability.LIST_FLOWS in capabilities:
        flows = await _first_page(client, client.pipelines.flows(priority=Priority.CHANGES))
        told.append(f"{flows} flows of {flows.owners} owners")
        seen_rows += flows.rows
    if Capability.LIST_PLANS in capabilities:
        plans = await _first_page(client, client.pipelines.plans(priority=Priority.CHANGES))
        told.append(f"{plans} plans of {plans.owners} owners")
        seen_rows += plans.rows
    if not told:
        return [ok(subject, "not offered: runs are told without names")]
    if seen_rows == 0:
        return [
            warning(
                subject,
                f"{' and '.join(told)} are seen",
                "share them with the token's owner, or use an administrator's token",
            )
        ]
    return [ok(subject, f"asked for those of everybody: {' and '.join(told)} are seen")]


def limits_line(client: WorkspaceClient, subject: str, *, own_per_minute: float) -> CheckLine:
    """Say what the workspace told of its quotas, beside our own budget."""
    own = f"our own budget is {own_per_minute:g} requests a minute"
    told = [budget for budget in client.requester.budgets() if budget.scope != "own"]
    if not told:
        return ok(subject, f"the workspace told none; {own}")
    words = ", ".join(f"{item.scope} {item.limit} a minute, {item.remaining} left" for item in told)
    if any(item.remaining == 0 for item in told):
        hint = "wait a minute, and see who else uses this token or workspace"
        return warning(subject, f"used up: {words}; {own}", hint)
    return ok(subject, f"the workspace told {words}; {own}")


async def _first_page(client: WorkspaceClient, pages: AsyncIterator[Page[_Row]]) -> _FirstPage:
    generator = cast("AsyncGenerator[Page[_Row], None]", pages)
    async with contextlib.aclosing(generator) as reading:
        async for page in reading:
            owners = {row.owner_id for row in page.rows if row.owner_id is not None}
            return _FirstPage(
                rows=len(page.rows),
                owners=len(owners),
                is_whole=len(page.rows) < client.settings.page_size,
            )
    return _FirstPage(rows=0, owners=0, is_whole=True)


def _named(capabilities: frozenset[Capability]) -> str:
    return ", ".join(sorted(capabilities))
