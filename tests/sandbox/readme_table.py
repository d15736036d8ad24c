"""The table of all operations in `monitor/sandbox/README.md`, made from what the walk found.

``python -m tests.sandbox.readme_table`` writes it anew.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.assumptions.assumption import Assumption
from monitor.sandbox.api.assumptions.table import ASSUMPTIONS, assumed_of
from monitor.sandbox.api.models.models import response_of
from monitor.sandbox.api.models.outcomes import JSON_TYPE, media_type_of
from monitor.sandbox.api.routes import HANDLERS
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
    """Return one table for each resource, and the assumptions."""
    served = {
        (finding.operation.operation_id, finding.edition): finding
        for finding in findings
        if finding.is_served
    }
    lines = [_summary(served.values())]
    for resource, group in itertools.groupby(
        operations(), key=lambda operation: operation.resource
    ):
        rows = [_row(item, served) for item in group]
        lines += ["", f"### {resource}", "", _HEAD, *rows]
    lines += ["", "## Assumptions", "", *_assumptions()]
    return "\n".join(lines)


def _summary(served: Iterable[Finding]) -> str:
    editions = [finding.edition for finding in served]
    counts = ", ".join(f"{edition} {editions.count(edition)}" for edition in EDITIONS)
    total = editions.count(Edition.OPEN)
    return f"{total} of {len(operations())} operations succeed in edition `open`; {counts}."


def _row(operation: Operation, served: dict[tuple[str, Edition], Finding]) -> str:
    editions = [str(edition) for edition in EDITIONS if (operation.operation_id, edition) in served]
    finding = served.get((operation.operation_id, Edition.OPEN))
    keys = [f"[{each.key}](#{each.key})" for each in assumed_of(operation.operation_id)]
    cells = (
        f"`{operation.operation_id}`",
        f"`{operation.method} {operation.path}`",
        " ".join(editions),
        _does(operation),
        "not served" if finding is None else _answer(operation, finding.status),
        ", ".join(keys),
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


def _assumptions() -> Iterator[str]:
    for assumption in ASSUMPTIONS:
        where = _where(assumption)
        yield f'- <a id="{assumption.key}"></a>**{assumption.key}** ({where}): {assumption.text}'


def _where(assumption: Assumption) -> str:
    return ", ".join(f"`{name}`" for name in assumption.operations) or "everywhere"


if __name__ == "__main__":
    README.write_text(asyncio.run(made()))
