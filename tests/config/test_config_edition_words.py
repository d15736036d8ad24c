"""Editions as people name them: the code that is meant stands in the problem."""

from __future__ import annotations

import pytest

from tests.config.settings_tables import changed, problems

_CHOICES = "must be one of auto, PC, PL, RL, LE, open; did you mean"


@pytest.mark.parametrize(
    ("edition", "meant"),
    [
        ("Premium", "RL"),
        ("premium edition", "RL"),
        ("Legacy Premium", "RL"),
        ("Professional", "PC, or PL for a workspace made before release 9.5"),
        ("Professional Edition, legacy", "PC, or PL for a workspace made before release 9.5"),
        ("professional-legacy", "PL"),
        ("Enterprise", "open"),
        ("Designer Cloud", "open"),
        ("Alteryx Designer Cloud Enterprise", "open"),
        ("self-managed", "open"),
        ("Legacy", "LE"),
        ("LEGACY EDITION", "LE"),
        ("Starter", "auto"),
        ("rl", "RL"),
        ("Open", "open"),
    ],
)
def test_a_word_for_an_edition_suggests_its_code(edition: str, meant: str) -> None:
    """The problem names every code, and the one that the word stands for."""
    (problem,) = problems(changed("workspaces[0].edition", edition))
    assert problem == f'workspaces[0].edition: "{edition}": {_CHOICES} {meant}?'


@pytest.mark.parametrize("edition", ["XL", "production", "fuller"])
def test_another_word_suggests_nothing(edition: str) -> None:
    """A word that stands for no edition is refused without a guess."""
    (problem,) = problems(changed("workspaces[0].edition", edition))
    assert problem == (
        f'workspaces[0].edition: "{edition}": must be one of auto, PC, PL, RL, LE, open'
    )
