"""Probes what a workspace serves. Its specification is a hint; reads are the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog
from msgspec import Struct

from monitor.catalogue.capabilities import NEEDS, Capability, capabilities_of, without
from monitor.catalogue.operations import Edition, operation, operations
from monitor.model.errors import (
    NotAvailableError,
    RequestRejectedError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.polling.poll_loop.reads import is_about_the_object, read_a_little
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
_NO_ID = "0"
_LISTED = (Edition.RL, Edition.PL, Edition.LE, Edition.PC)  # where nothing decides, the first
Specification = frozenset[tuple[str, str]]


class Proof(Struct, frozen=True, kw_only=True):
    """Operations that reads found to be there, and those that were refused to us."""

    found: frozenset[str]
    refused: frozenset[str]

    @property
    def unanswered(self) -> frozenset[str]:
        """Reads that failed for now."""
        return PROBED - self.found - self.refused

    def completed_by(self, earlier: Proof) -> Proof:
        """Return this proof with what an earlier one shows of reads that have no answer now."""
        return Proof(
            found=self.found | (earlier.found & self.unanswered),
            refused=self.refused | (earlier.refused & self.unanswered),
        )


NOTHING_PROVEN = Proof(found=frozenset(), refused=frozenset())


class Finding(Struct, frozen=True, kw_only=True):
    """What a workspace serves, and the proof."""

    edition: Edition
    reason: str
    capabilities: frozenset[Capability]
    proof: Proof
    unanswered: frozenset[str]  # operations that failed for now; they prove nothing

    @property
    def is_sure(self) -> bool:
        """True where every read was answered that the edition follows from."""
        return not self.proof.unanswered

    @property
    def unproven(self) -> frozenset[Capability]:
        """What rests on an operation without an answer."""
        return self.capabilities - without(self.capabilities, self.unanswered)


async def probe(
    client: WorkspaceClient,
    *,
    before: Edition | None = None,
    answered: frozenset[str] = frozenset(),
    earlier: Proof = NOTHING_PROVEN,
    offered: Mapping[Capability, bool] | None = None,
    doubted: frozenset[str] = frozenset(),
) -> Finding:
    """Read a little of everything; the client is set to the edition that fits.

    A configured edition is not doubted, but what reads find refused in it is switched off.
    ``before`` and ``earlier`` are what an earlier probe found and proved; they stand where a read
    has no answer now. ``answered`` are operations that were answered at any time: they belong to
    the edition, and where they are refused now, rights were withdrawn. ``offered`` is what was
    learned of capabilities, also by other lives: what is not known to be there is asked for, since
    only its own poll would find out; without it nothing is. ``doubted`` are operations to be read
    as well.

    Raises:
        WorkspaceError: the workspace cannot be read now, or refuses the token.
    """
    configured = client.settings.edition
    client.requester.edition = configured
    client.requester.forget_unavailable(*PROBED)
    specification = await _specification(client)
    proof = (await _prove(client)).completed_by(earlier)
    if configured is not None:
        edition, reason = configured, "as configured"
    else:
        edition, reason = infer_edition(_of_edition(proof, answered), specification, before=before)
    client.requester.edition = edition
    asked = client.requester.unavailable | doubted | _unknown(edition, offered)
    unanswered = await _ask_again(client, asked - PROBED)
    capabilities = without(capabilities_of(edition), proof.refused | client.requester.unavailable)
    return Finding(
        edition=edition,
        reason=reason,
        capabilities=capabilities,
        proof=proof,
        unanswered=proof.unanswered | unanswered,
    )


def reads_of(capabilities: Iterable[Capability]) -> frozenset[str]:
    """Return the operations that only read and that these capabilities rest on."""
    needed = (need for capability in capabilities for need in NEEDS[capability])
    return frozenset(
        operation_id for operation_id in needed if operation(operation_id).method == "GET"
    )


def _unknown(edition: Edition, offered: Mapping[Capability, bool] | None) -> frozenset[str]:
    """Return the operations of the edition that are not proven to be there."""
    if offered is None:
        return frozenset()
    capabilities = capabilities_of(edition)
    refused = (capability for capability in capabilities if offered.get(capability) is False)
    return reads_of(capabilities - offered.keys()).union(*(NEEDS[gone] for gone in refused))


def infer_edition(
    proof: Proof, specification: Specification, *, before: Edition | None = None
) -> tuple[Edition, str]:
    """Return the edition that fits the reads best, and why.

    Of several that do so equally the one found ``before`` stands, or else the specification
    decides. While reads have no answer, it stands unless one that succeeds is not part of it.
    """
    hint = _hint(specification)
    if before is not None and proof.unanswered and _has_all(before, proof.found):
        return before, f"found so before; no answer came from {_named(proof.unanswered)}{hint}"
    if not proof.found:
        # The document is not made for the caller; but a token without rights shows even less.
        edition = max(
            _LISTED,
            key=lambda candidate: (
                candidate is before,
                _likeness(candidate, specification),
                -_contradictions(candidate, proof),
            ),
        )
        if edition is before:
            return edition, f"no read succeeded; it was found so before{hint}"
        basis = "the served specification" if specification else "that"
        return edition, f"no read succeeded; {basis} fits this edition best{hint}"
    fitting = [candidate for candidate in _LISTED if _has_all(candidate, proof.found)]
    found = f"reads succeed of {_named(proof.found)}"
    if not fitting:
        return Edition.OPEN, f"{found}, which no single edition has together{hint}"
    edition = max(
        fitting,
        key=lambda candidate: (
            -_contradictions(candidate, proof),
            candidate is before,
            _likeness(candidate, specification),
        ),
    )
    refused = f"; refused are {_named(proof.refused)}" if proof.refused else ""
    return edition, f"{found}{refused}{hint}"


def _has_all(edition: Edition, found: Iterable[str]) -> bool:
    return all(operation(proven).is_part_of(edition) for proven in found)


def _of_edition(proof: Proof, answered: frozenset[str]) -> Proof:
    withdrawn = proof.refused & answered
    return Proof(found=proof.found | withdrawn, refused=proof.refused - withdrawn)


def _hint(specification: Specification) -> str:
    """Describe what the served specification shows; it may show more than the token may use."""
    if not specification:
        return ""
    nearest = max((*_LISTED, Edition.OPEN), key=lambda edition: _likeness(edition, specification))
    return f"; the served specification ({len(specification)} operations) is most like {nearest}"


def _contradictions(edition: Edition, proof: Proof) -> int:
    return sum(operation(refused).is_part_of(edition) for refused in proof.refused)


def _likeness(edition: Edition, specification: Specification) -> int:
    """Count how many operations the specification and the edition agree about, less the rest."""
    if not specification:
        return 0
    reads_of_edition = {
        (operation.method, operation.path)
        for operation in operations()
        if operation.is_part_of(edition)
    }
    return -len(reads_of_edition ^ specification)


async def _specification(client: WorkspaceClient) -> Specification:
    try:
        return await client.operations.open_api_spec(priority=Priority.CHANGES)
    except WorkspaceError as error:
        if not is_about_the_object(error):
            raise
        log.info("specification not readable", workspace=client.settings.name, reason=str(error))
        return frozenset()


async def _prove(client: WorkspaceClient) -> Proof:
    """Read a little of everything. A read that fails for now proves nothing.

    Raises:
        WorkspaceError: the workspace cannot be read at all, or no read succeeded and some failed.
    """
    found: set[str] = set()
    refused: set[str] = set()
    failure: WorkspaceError | None = None
    for operation_id in _READS:
        try:
            is_offered = await _is_available(client, operation_id)
        except (TryLaterError, UnreadableAnswerError) as error:
            is_second = failure is not None and not (found or refused)
            if is_second or not is_about_the_object(error):
                raise  # the others would say the same of a workspace that is down
            failure = error
        else:
            (found if is_offered else refused).add(operation_id)
    if failure is not None and not found:
        raise failure
    return Proof(found=frozenset(found), refused=frozenset(refused))


async def _ask_again(client: WorkspaceClient, operation_ids: Iterable[str]) -> frozenset[str]:
    """Find out which of these operations are there; return those that failed for now.

    Nothing is read or changed: no object has the id 0, and nothing is made of an empty body.

    Raises:
        WorkspaceError: the workspace cannot be read at all.
    """
    unanswered = set()
    for operation_id in sorted(operation_ids):
        doubted = operation(operation_id)
        client.requester.forget_unavailable(operation_id)
        try:
            await client.requester.request(
                operation_id,
                *(_NO_ID for _ in doubted.parameters),
                body=None if doubted.method in ("GET", "DELETE") else {},
                priority=Priority.CHANGES,
            )
        except WorkspaceError as error:
            # The client has recorded what is gone; any other refusal shows that it is there.
            if not is_about_the_object(error):
                raise
            if isinstance(error, TryLaterError | UnreadableAnswerError):
                unanswered.add(operation_id)
    return frozenset(unanswered)


async def _is_available(client: WorkspaceClient, operation_id: str) -> bool:
    try:
        await read_a_little(client, operation_id)
    except NotAvailableError:
        return False
    except RequestRejectedError:
        return True  # it is there, and refuses our query
    return True


def _named(operation_ids: Iterable[str]) -> str:
    return ", ".join(sorted(operation_ids))
