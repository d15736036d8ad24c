"""Checks which schedules are visible, and which of them have no expected start."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import cast

from monitor.catalogue.capabilities import Capability
from monitor.model.checks import CheckLine, ok, warning
from monitor.model.errors import WorkspaceError
from monitor.model.triggers import UnsupportedTrigger
from monitor.schedules import BadTriggerError, check
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.payloads import Page, ScheduleRow

_NAMED = 3  # schedules in one sentence
_HINT = "a rule schedule_missed with expect watches pipelines whose schedules are not visible"


async def check_schedules(
    client: WorkspaceClient, subject: str, capabilities: frozenset[Capability]
) -> list[CheckLine]:
    """Report whose schedules are visible: the API shows only those of the token's owner."""
    if Capability.READ_SCHEDULES not in capabilities:
        return [ok(subject, "not offered: expected starts are unknown")]
    rows, is_complete = await _first_page(client)
    owner = await _owner(client, capabilities)
    if not rows:
        return [
            warning(
                subject,
                f"none is visible: the API shows only those of {owner}",
                f"use a token of the person who owns the schedules; {_HINT}",
            )
        ]
    off = sum(not row.is_enabled for row in rows)
    watched = f"{len(rows)}{'' if is_complete else ' and more'} visible, {off} of them disabled"
    lines = [ok(subject, f"{watched}; all of {owner}, those of others are not watched")]
    problems = _problems(rows)
    if problems:
        lines.append(warning(subject, _listed(problems), f"correct it there; {_HINT}"))
    waiting = [f"{row.name or row.id!r}" for row in rows if row.is_enabled and _waits(row)]
    if waiting:
        lines.append(ok(subject, f"{_listed(waiting)} wait for data: they have no time to watch"))
    return lines


def _problems(rows: Sequence[ScheduleRow]) -> list[str]:
    """Return a sentence for each enabled schedule with a trigger that cannot be read."""
    problems: list[str] = []
    for row in rows:
        for trigger in row.triggers if row.is_enabled else ():
            try:
                check(trigger)
            except BadTriggerError as exc:
                problems.append(f"{row.name or row.id!r} is not watched: {exc}")
    return problems


def _waits(row: ScheduleRow) -> bool:
    return bool(row.triggers) and all(
        isinstance(trigger, UnsupportedTrigger) for trigger in row.triggers
    )


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more


async def _owner(client: WorkspaceClient, capabilities: frozenset[Capability]) -> str:
    if Capability.KNOW_THE_PERSON not in capabilities:
        return "the token's owner"
    try:
        person = await client.inventory.current_person(priority=Priority.CHANGES)
    except WorkspaceError:
        # The line of the token reports this failure.
        return "the token's owner"
    return person.email or person.name or "the token's owner"


async def _first_page(client: WorkspaceClient) -> tuple[Sequence[ScheduleRow], bool]:
    pages = client.pipelines.schedules(priority=Priority.CHANGES)
    generator = cast("AsyncGenerator[Page[ScheduleRow], None]", pages)
    async with contextlib.aclosing(generator) as reading:
        async for page in reading:
            return page.rows, len(page.rows) < client.settings.page_size
    return (), True
