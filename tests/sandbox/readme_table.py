"""The table of all operations in `monitor/sandbox/README.md`, made from what the walk found.

``python -m tests.sandbox.readme_table`` writes it again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.models.models import JSON_TYPE, media_type_of, response_of
from monitor.sandbox.api.routes import HANDLERS
from tests.sandbox.assumptions import assumed_of
from tests.sandbox.walk import Finding, walked

README = Path(__file__).parents[2] / "monitor" / "sandbox" / "README.md"
BEGIN = "<!-- Made by `python -m tests.sandbox.readme_table`; what follows is not edited. -->"
EDITIONS = (Edition.PC, Edition.PL, Edition.RL, Edition.LE)
_HEAD = (
    "| operation | request | editions | what it does here | answer | assumed |\n"
    "|---|---|---|---|---|---|"
)


async def made() -> str:
    """Return the whole document: what stands before the mark, and the tables after it."""
    written, _, _ = README.read_text().partition(BEGIN)
    findings = [item for edition in Edition for item in await walked(edition)]
    return f"{written}{BEGIN}\n\n{tables(findings)}\n"


def tables(findings: Sequence[Finding]) -> str:
    """Return how many operations succeed, and the table of all."""
    served = {
        (finding.operation.operation_id, finding.edition): finding
        for finding in findings
        if finding.is_served
    }
    rows = [_row(operation, served) for operation in operations()]
    return "\n".join([_summary(served.values()), "", _HEAD, *rows])


def _summary(served: Iterable[Finding]) -> str:
    editions = [finding.edition for finding in served]
    counts = ", ".join(f"{edition} {editions.count(edition)}" for edition in EDITIONS)
    total = editions.count(Edition.OPEN)
    return f"{total} of {len(operations())} operations succeed in edition `open`; {counts}."


def _row(operation: Operation, served: dict[tuple[str, Edition], Finding]) -> str:
    editions = [str(edition) for edition in EDITIONS if (operation.operation_id, edition) in served]
    finding = served.get((operation.operation_id, Edition.OPEN))
    cells = (
        f"`{operation.operation_id}`",
        f"`{operation.method} {operation.path}`",
        " ".join(editions),
        _does(operation),
        "not served" if finding is None else _answer(operation, finding.status),
        ", ".join(assumed_of(operation.operation_id)),
    )
    return f"| {' | '.join(cells)} |"


def _does(operation: Operation) -> str:
    handler = HANDLERS.get(operation.operation_id)
    docstring = inspect.getdoc(handler) if handler is not None else None
    first, _, _ = (docstring or operation.name).partition("\n\n")
    return " ".join(first.split()).rstrip(".").replace("``", "`").replace("|", "\\|")


def _answer(operation: Operation, status: int) -> str:
    media_type = media_type_of(operation)
    if media_type is None:
        return str(status)
    what = response_of(operation) if media_type == JSON_TYPE else media_type
    return f"{status} `{what}`"


if __name__ == "__main__":
    README.write_text(asyncio.run(made()))
