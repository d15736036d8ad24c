"""Every pair of operation and edition behaves as the catalogue says, over HTTP."""

from __future__ import annotations

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.http.registry import HANDLERS
from tests.sandbox.samples.table import SAMPLES
from tests.sandbox.walk import walked


@pytest.mark.parametrize("edition", list(Edition))
async def test_an_edition_offers_what_is_its_own(edition: Edition) -> None:
    """What is offered succeeds as described; what is not is a route that does not exist."""
    found = [fault for one in await walked(edition) for fault in one.faults]

    assert not found, "\n".join(found)


def test_every_operation_has_a_sample() -> None:
    """Nothing has a sample that is not served."""
    assert SAMPLES.keys() <= HANDLERS.keys()
