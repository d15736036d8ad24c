"""Every pair of operation and edition behaves as the catalogue states, over HTTP."""

from __future__ import annotations

import pytest

from monitor.catalogue.operations import Edition, operations
from monitor.sandbox.api.routes import HANDLERS
from tests.sandbox.samples.table import SAMPLES
from tests.sandbox.walk import walked


@pytest.mark.parametrize("edition", list(Edition))
async def test_an_edition_serves_what_is_its_own(edition: Edition) -> None:
    """A served operation succeeds as described; any other is a route that does not exist."""
    found = [fault for item in await walked(edition) for fault in item.faults]

    assert not found, "\n".join(found)


def test_every_operation_is_walked() -> None:
    """All 186 operations have a handler, and a sample that the walk sends."""
    ids = {operation.operation_id for operation in operations()}

    assert len(ids) == 186
    assert HANDLERS.keys() == ids
    assert SAMPLES.keys() == ids


async def test_744_pairs_are_walked() -> None:
    """The four editions and all operations make 744 pairs, and each was called."""
    listed = [edition for edition in Edition if edition is not Edition.OPEN]
    pairs = {
        (item.operation.operation_id, edition)
        for edition in listed
        for item in await walked(edition)
    }

    assert len(pairs) == 744
