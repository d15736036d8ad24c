"""Seeds for the scenarios, and one line of counts for each at the end of a run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import pytest

from tests.summary import SCENARIO

ReportCounts = Callable[..., None]


@pytest.fixture
def seed() -> int:
    """Return a seed of this run, or ``CRASH_SEED``; pytest shows it when the test fails."""
    number = int(os.environ.get("CRASH_SEED") or secrets.randbits(32))
    print(f"seed {number}")  # noqa: T201 - captured, and shown when the test fails
    return number


@pytest.fixture
def report_counts(request: pytest.FixtureRequest) -> ReportCounts:
    """Report the counts of a passed scenario, shown at the end."""

    def add_line(scenario: str, **counts: int) -> None:
        line = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())
        request.node.user_properties.append((SCENARIO, f"{scenario}: {line}"))

    return add_line
