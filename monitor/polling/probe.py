"""Finds out what a workspace offers us. Its specification is a hint; reads are the proof."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from msgspec import Struct

from monitor.catalogue.capabilities import Capability, capabilities_of, without
from monitor.catalogue.operations import Edition, operation, operations
from monitor.model.errors import (
    NotAvailableError,
    RequestRejectedError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.polling.failures import is_about_what_was_asked
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority

log = structlog.get_logger()

# Harmless reads that need no id, chosen so that every two editions differ in some of them.
_READS: tuple[str, ...] = (
    "listJobLibrary",
    "listFlows",
    "listPlans",
    "listPlanSnapshotRuns",
    "listSchedules",
    "listOutputObjects",
    "getCurrentPerson",
    "listUserDefinedFunctions",
)
PROBED = frozenset(_READS)
_LISTED = (Edition.RL, Edition.PL, Edition.LE, Edition.PC)  # where nothing decides, the first
Specification = frozenset[tuple[str, str]]


class Finding(Struct, frozen=True, kw_only=True):
    """What a workspace offers, and why we think so."""

    edition: Edition
    reason: str
    capabilities: frozenset[Capability]
    is_sure: bool  # every read answered


class Proof(Struct, frozen=True, kw_only=True):
    """Operations that reads found to be there, and those that were refused to us."""

    found: frozenset[str]
    refused: frozenset[str]


async def probe(client: WorkspaceClient) -> Finding:
    """Read a little of everything and judge; the client is set to the edition found.

    A configured edition is not doubted, but what reads find refused in it is switched off.

    Raises:
        WorkspaceError: the workspace cannot be asked now, or refuses the token.
    """
    configured = client.settings.edition
    client.edition = configured
    client.forget_unavailable()
    specification = await _specification(client)
    proof = await _prove(client)
    if configured is not None:
        edition, reason = configured, "as configured"
    else:
        edition, reason = judge(proof, specification)
    client.edition = edition
    capabilities = without(capabilities_of(edition), proof.refused | client.unavailable)
    is_sure = proof.found | proof.refused >= set(_READS)
    return Finding(edition=edition, reason=reason, capabilities=capabilities, is_sure=is_sure)


def judge(proof: Proof, specification: Specification) -> tuple[Edition, str]:
    """Return the edition that fits the reads best, and why. The specification breaks ties."""
    if not proof.found:
        # The document is not made for the caller; but a token without rights shows even less.
        edition = max(
            _LISTED, key=lambda one: (_likeness(one, specification), -_contradictions(one, proof))
        )
        hint = "the served specification" if specification else "that"
        return edition, f"no read succeeded; {hint} fits this edition best"
    fitting = [
        one for one in _LISTED if all(operation(found).is_offered_in(one) for found in proof.found)
    ]
    found = f"reads succeed of {_named(proof.found)}"
    if not fitting:
        return Edition.OPEN, f"{found}, which no single edition has together"
    edition = max(
        fitting, key=lambda one: (-_contradictions(one, proof), _likeness(one, specification))
    )
    refused = f"; refused are {_named(proof.refused)}" if proof.refused else ""
    return edition, f"{found}{refused}"


def _contradictions(edition: Edition, proof: Proof) -> int:
    return sum(operation(one).is_offered_in(edition) for one in proof.refused)


def _likeness(edition: Edition, specification: Specification) -> int:
    """Count how many operations the specification and the edition agree about, less the rest."""
    if not specification:
        return 0
    offered = {(one.method, one.path) for one in operations() if one.is_offered_in(edition)}
    return -len(offered ^ specification)


async def _specification(client: WorkspaceClient) -> Specification:
    try:
        return await client.open_api_spec(priority=Priority.CHANGES)
    except WorkspaceError as error:
        if not is_about_what_was_asked(error):
            raise
        log.info("no specification", workspace=client.settings.name, reason=str(error))
        return frozenset()


async def _prove(client: WorkspaceClient) -> Proof:
    """Ask for a little of everything. A read that fails for now proves nothing.

    Raises:
        WorkspaceError: the workspace cannot be asked at all, or no read succeeded and some failed.
    """
    found: set[str] = set()
    refused: set[str] = set()
    failure: WorkspaceError | None = None
    for operation_id in _READS:
        try:
            is_offered = await _is_offered(client, operation_id)
        except TryLaterError as error:
            if not is_about_what_was_asked(error):
                raise
            failure = error
        else:
            (found if is_offered else refused).add(operation_id)
    if failure is not None and not found:
        raise failure
    return Proof(found=frozenset(found), refused=frozenset(refused))


async def _is_offered(client: WorkspaceClient, operation_id: str) -> bool:
    query = {"limit": 1} if "limit" in operation(operation_id).query else None
    try:
        await client.request(operation_id, query=query, priority=Priority.CHANGES)
    except NotAvailableError:
        return False
    except (RequestRejectedError, UnreadableAnswerError):
        return True  # somebody is there and does not like how we ask
    return True


def _named(operation_ids: Iterable[str]) -> str:
    return ", ".join(sorted(operation_ids))
