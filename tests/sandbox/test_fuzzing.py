"""The sandbox keeps to its specification, whatever the request."""

from __future__ import annotations

import pytest

from monitor.catalogue.operations import Edition, operations
from tests.examples import examples
from tests.sandbox.fuzzing import fuzz

ONLY_PL = [
    operation.operation_id
    for operation in operations()
    if operation.is_part_of(Edition.PL) and not operation.is_part_of(Edition.RL)
]


# Schemathesis does not request the document that it has just read.
ALL_OF_RL = [
    operation.operation_id
    for operation in operations()
    if operation.is_part_of(Edition.RL) and operation.operation_id != "getOpenApiSpec"
]


@pytest.mark.parametrize(("edition", "only"), [(Edition.RL, ALL_OF_RL), (Edition.PL, ONLY_PL)])
async def test_answers_keep_to_the_specification(edition: Edition, only: list[str]) -> None:
    """Requests made from the served document find no 5xx and no answer against its schema."""
    report = await fuzz(edition, examples=examples(2), only=only if edition is Edition.PL else ())

    assert report.exit_code == 0, report.text
    assert report.operations == len(only), report.text
