"""What is assumed stands in one place, and nothing that had to be assumed is left out."""

from __future__ import annotations

from collections import Counter

from monitor.catalogue.operations import Operation, operations
from monitor.sandbox.http.assumptions.table import ASSUMPTIONS, assumed_of
from monitor.sandbox.http.showing.models import public_models

# Described by the facts, though no public model has that name.
DESCRIBED = frozenset({"RunJobResponse", "JobGroupProfile", "OpenApiSpecResponse", "object"})


def is_undescribed(one: Operation) -> bool:
    """True for operations whose body, path or answer nothing public tells."""
    known = public_models().keys() | DESCRIBED
    return one.assigned or bool({one.request, one.response} - known - {None})


def test_assumptions_name_operations() -> None:
    """Every assumption has a key of its own, a sentence, and operations that exist."""
    ids = {one.operation_id for one in operations()}

    assert [
        key for key, times in Counter(one.key for one in ASSUMPTIONS).items() if times > 1
    ] == []
    for one in ASSUMPTIONS:
        assert one.says.endswith("."), one.key
        assert set(one.operations) <= ids, one.key


def test_what_is_not_described_is_assumed() -> None:
    """An operation without public description says what was assumed."""
    assert [
        one.operation_id
        for one in operations()
        if is_undescribed(one) and not assumed_of(one.operation_id)
    ] == []
