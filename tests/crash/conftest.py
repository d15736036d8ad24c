"""Seeds for the scenarios, and what one line about each at the end of a run shows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import pytest

from tests.summary import SCENARIO

Say = Callable[..., None]


@pytest.fixture
def seed() -> int:
    """Return a seed of this run, or ``CRASH_SEED``; pytest shows it when the test fails."""
    number = int(os.environ.get("CRASH_SEED") or secrets.randbits(32))
    print(f"seed {number}")  # noqa: T201 - captured, and shown when the test fails
    return number


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Take counts of a scenario that has held, to be shown at the end."""

    def note(scenario: str, **counts: int) -> None:
        received = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())
        request.node.user_properties.append((SCENARIO, f"{scenario}: {received}"))

    return note
