"""What is assumed stands in one place, and nothing that had to be assumed is left out."""

from __future__ import annotations

from monitor.catalogue.operations import Operation, operations
from monitor.sandbox.api.models.models import public_models
from tests.sandbox.assumptions import ASSUMPTIONS, assumed_of

# Described by the facts, though no public model has that name.
DESCRIBED = frozenset({"RunJobResponse", "JobGroupProfile", "OpenApiSpecResponse", "object"})


def is_undescribed(operation: Operation) -> bool:
    """True for operations whose body, path or answer has no public description."""
    known = public_models().keys() | DESCRIBED
    return operation.assigned or bool({operation.request, operation.response} - known - {None})


def test_assumptions_name_operations() -> None:
    """Every assumption has a sentence, and operations that exist; TOML holds keys apart."""
    ids = {operation.operation_id for operation in operations()}

    for key, assumption in ASSUMPTIONS.items():
        assert assumption.text.endswith("."), key
        assert set(assumption.operations) <= ids, key


def test_operations_without_a_description_are_assumed() -> None:
    """An operation without public description documents what was assumed."""
    assert [
        operation.operation_id
        for operation in operations()
        if is_undescribed(operation) and not assumed_of(operation.operation_id)
    ] == []
