"""Secrets that are easy to guess, or open more than one door, are named."""

from __future__ import annotations

from tests.config.settings_tables import file, problems, validated, with_callbacks


def test_a_secret_in_two_places_is_named() -> None:
    """A warning: one that leaks opens both; different ones are none."""
    shared = validated(with_callbacks(secret_file="/run/secrets/token"))
    apart = validated(with_callbacks())
    named = [str(problem) for problem in shared.warnings if "same" in problem.hint]

    assert named == [
        (
            "workspaces[0].callbacks.secret: ***: is the same as workspaces[0].token; one that "
            "leaks opens both, so make another"
        )
    ]
    assert not any("same" in problem.hint for problem in apart.warnings)


def test_a_secret_that_repeats_itself_is_refused() -> None:
    """Its length alone says nothing."""
    assert problems(file(server={"token_file": "/run/secrets/repeats"})) == [
        (
            "server.token: ***: is too easy to guess: it repeats itself; make one with: "
            "openssl rand -hex 32"
        )
    ]
