"""The capabilities of the workspace: edition, refused reads, visible objects, rate limits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, TypeVar, cast

from msgspec import Struct

from monitor.catalogue.capabilities import Capability, capabilities_of, without
from monitor.catalogue.operations import Edition, operation
from monitor.model.checks import CheckLine, failed, ok, warning
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
        """The edition that the daemon uses: a configured one wins."""
        return self.configured or self.finding.edition

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the daemon can read there."""
        return without(capabilities_of(self.edition), self.refused)


def edition_line(found_capabilities: FoundCapabilities, subject: str) -> CheckLine:
    """Compare the edition found with the one configured."""
    found, configured = found_capabilities.finding.edition, found_capabilities.configured
    why = found_capabilities.finding.reason
    if not found_capabilities.finding.is_sure:
        found_so_far = f"{found} fits best so far, as not every read was answered ({why})"
        return warning(subject, found_so_far, "run doctor again later")
    if configured is None:
        return ok(subject, f"{found} is found: {why}")
    if configured is found:
        return ok(subject, f"{found}, as configured: {why}")
    hint = f'set edition = "{found}" or "auto" in [[workspaces]]'
    refused = sorted(
        operation_id
        for operation_id in found_capabilities.refused
        if operation(operation_id).is_part_of(configured)
    )
    if configured is not Edition.OPEN and refused:
        return failed(
            subject,
            f"{configured} is configured and has {', '.join(refused)}, refused here; "
            f"{found} fits best",
            f"{hint}, or give the token's owner these rights",
        )
    return warning(subject, f"{configured} is configured; {found} fits best: {why}", hint)


def capabilities_line(found_capabilities: FoundCapabilities, subject: str) -> CheckLine:
    """Report what is switched off, and why."""
    of_edition, able = capabilities_of(found_capabilities.edition), found_capabilities.capabilities
    refused = _named(of_edition - able)
    absent = _named(frozenset(Capability) - of_edition)
    reasons = [
        *([f"refused to this token: {refused}"] if refused else []),
        *([f"not part of edition {found_capabilities.edition}: {absent}"] if absent else []),
    ]
    off = f"switched off: {'; '.join(reasons)}"
    rights = "give the token's owner the right to read what is refused"
    if not able & _FOLLOWING or Capability.LIST_CHANGES in of_edition - able:
        hint = rights if refused else "no run can be seen in this edition; use another one"
        return failed(subject, off, hint)
    if Capability.LIST_CHANGES not in able:
        return warning(
            subject,
            off,
            "create webhook tasks by hand, or name runs in workspaces.poll.follow or with track",
        )
    if refused:
        return warning(subject, off, rights)
    return ok(subject, off if reasons else f"all {len(able)} are available")


class _Owned(Protocol):
    @property
    def owner_id(self) -> str | None: ...


_Row = TypeVar("_Row", bound=_Owned)


class _FirstPage(Struct, frozen=True, kw_only=True):
    """How many rows the first page has, and of how many owners."""

    rows: int
    owners: int
    is_complete: bool

    def __str__(self) -> str:
        return f"{self.rows}{'' if self.is_complete else ' and more'}"


async def check_lists(
    client: WorkspaceClient, subject: str, capabilities: frozenset[Capability]
) -> list[CheckLine]:
    """Count the owners of visible flows and plans: these lists depend on sharing."""
    counts: list[str] = []
    seen_rows = 0
    if Capability.LIST_FLOWS in capabilities:
        flows = await _first_page(client, client.pipelines.flows(priority=Priority.CHANGES))
        counts.append(f"{flows} flows of {flows.owners} owners")
        seen_rows += flows.rows
    if Capability.LIST_PLANS in capabilities:
        plans = await _first_page(client, client.pipelines.plans(priority=Priority.CHANGES))
        counts.append(f"{plans} plans of {plans.owners} owners")
        seen_rows += plans.rows
    if not counts:
        return [ok(subject, "not offered: runs are reported without names")]
    if seen_rows == 0:
        return [
            warning(
                subject,
                f"{' and '.join(counts)} are visible",
                "share them with the token's owner, or use an administrator's token",
            )
        ]
    return [ok(subject, f"those of all owners were requested: {' and '.join(counts)} are visible")]


def limits_line(client: WorkspaceClient, subject: str, *, own_per_minute: float) -> CheckLine:
    """Report the quotas that the workspace sends, beside our own budget."""
    own = f"our own budget is {own_per_minute:g} requests a minute"
    quotas = [budget for budget in client.requester.budget.status() if budget.scope != "own"]
    if not quotas:
        return ok(subject, f"the workspace sends none; {own}")
    texts = ", ".join(
        f"{quota.scope} {quota.limit} a minute, {quota.remaining} left" for quota in quotas
    )
    if any(quota.remaining == 0 for quota in quotas):
        hint = "wait a minute, and see who else uses this token or workspace"
        return warning(subject, f"used up: {texts}; {own}", hint)
    return ok(subject, f"the workspace sends {texts}; {own}")


async def _first_page(client: WorkspaceClient, pages: AsyncIterator[Page[_Row]]) -> _FirstPage:
    generator = cast("AsyncGenerator[Page[_Row], None]", pages)
    async with contextlib.aclosing(generator) as reading:
        async for page in reading:
            owners = {row.owner_id for row in page.rows if row.owner_id is not None}
            return _FirstPage(
                rows=len(page.rows),
                owners=len(owners),
                is_complete=len(page.rows) < client.settings.page_size,
            )
    return _FirstPage(rows=0, owners=0, is_complete=True)


def _named(capabilities: frozenset[Capability]) -> str:
    return ", ".join(sorted(capabilities))
