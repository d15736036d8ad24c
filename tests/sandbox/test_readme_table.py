"""The document of the sandbox shows the results of the walk."""

from __future__ import annotations

import difflib
import inspect

from monitor.catalogue.operations import operations
from monitor.sandbox.api.routes import HANDLERS
from tests.sandbox.readme_table import README, made


async def test_the_table_is_not_stale() -> None:
    """The table in the document is what is made now; the generator writes it again."""
    written = README.read_text().splitlines()
    found = difflib.unified_diff(written, (await made()).splitlines(), lineterm="", n=0)
    differences = "\n".join(found)

    assert not differences, f"run python -m tests.sandbox.readme_table\n{differences}"


def test_every_handler_has_a_description() -> None:
    """The table's sentence of an operation comes from its handler, not from its name."""
    silent = [
        operation.operation_id
        for operation in operations()
        if not inspect.getdoc(HANDLERS[operation.operation_id])
    ]

    assert silent == []
