"""Outcomes of polls."""

from __future__ import annotations

import pytest

from monitor.model.poll_outcomes import (
    FAILED_OUTCOMES,
    STARVED_OUTCOMES,
    WELL_OUTCOMES,
    PollOutcome,
)


@pytest.mark.parametrize("outcome", PollOutcome)
def test_every_outcome_has_words_for_people(outcome: PollOutcome) -> None:
    """The page shows each outcome in words, also where the lease stopped a poll."""
    assert outcome.in_words
    assert PollOutcome(str(outcome)) is outcome


def test_no_outcome_is_judged_twice() -> None:
    """An outcome is well, a failure, a lack of requests, or passes by itself."""
    assert not WELL_OUTCOMES & (FAILED_OUTCOMES | STARVED_OUTCOMES)
    assert not FAILED_OUTCOMES & STARVED_OUTCOMES
