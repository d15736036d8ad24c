"""A secret stands outside the file, and its problems are reported without showing it."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.model.secrets import Secret
from tests.config.settings_tables import (
    TOKEN,
    file,
    parsed,
    problems,
    validated,
    with_callbacks,
    workspace,
)


def named(**token: Any) -> dict[str, Any]:
    """Return a configuration whose workspace gives its token in that way."""
    return file(workspaces=[{"name": "a", "url": "https://api.example.com", **token}])


@pytest.mark.parametrize(
    "token",
    [
        {"token_file": "/run/secrets/token"},
        {"token_env": "MQTT_PASSWORD"},
        {"token_credential": "server-token"},
    ],
)
def test_a_secret_is_read_in_three_ways(token: dict[str, str]) -> None:
    """A file, a variable and a systemd credential each hold a secret."""
    assert parsed(named(**token)).workspaces[0].workspace.token


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (
            {"token": TOKEN},
            (
                "workspaces[0].token: ***: a secret may not stand in the file; "
                "use token_file, token_env, token_credential, token_command"
            ),
        ),
        (
            {"token": 12_345},
            (
                "workspaces[0].token: ***: a secret may not stand in the file; "
                "use token_file, token_env, token_credential, token_command"
            ),
        ),
        (
            {"token_file": "/run/secrets/nothing"},
            (
                'workspaces[0].token_file: "/run/secrets/nothing": '
                "there is no such file; create it or name another"
            ),
        ),
        (
            {"token_file": "/run/secrets/empty"},
            "workspaces[0].token_file: ***: the secret is empty; put it there",
        ),
        (
            {"token_file": "/run/secrets/lines"},
            (
                "workspaces[0].token_file: ***: "
                "the secret holds a line end or control character; give one line"
            ),
        ),
        (
            {"token_file": "/run/secrets/token", "token_env": "MQTT_PASSWORD"},
            ('workspaces[0].token_env: "MQTT_PASSWORD": give only one of token_file, token_env'),
        ),
        (
            {"token_file": 5},
            (
                "workspaces[0].token_file: 5: must be a file that holds nothing else; "
                "a line end after it is ignored"
            ),
        ),
        (
            {"token_env": ""},
            (
                'workspaces[0].token_env: "": '
                "must be the name of an environment variable that holds it"
            ),
        ),
    ],
)
def test_a_bad_secret_is_a_problem(token: dict[str, Any], problem: str) -> None:
    """A literal, an absent file, an empty or broken secret: each has its sentence."""
    assert problems(named(**token)) == [problem]


@pytest.mark.parametrize(
    "mapping",
    [
        named(token=TOKEN),
        named(token_env=f"{TOKEN}=="),
        named(token_credential=f"{TOKEN}/+=="),
        named(token_file=TOKEN * 3),
        named(tokn=TOKEN),
        named(tokenfile=TOKEN),
        named(passwrd=TOKEN),
        file(workspaces=[workspace(url=f"https://user:{TOKEN}@api.example.com")]),
        file(mqtt={"url": f"mqtt://user:{TOKEN}@broker"}),
        file(mqtt={"password": TOKEN, "username": "monitor"}),
        with_callbacks(secret=TOKEN),
        with_callbacks(public_url=f"https://x:{TOKEN}@monitor.example.com"),
        file(server={"token": TOKEN}),
        file(server={"password": [TOKEN]}),
    ],
)
def test_a_misplaced_secret_is_never_shown(mapping: dict[str, Any]) -> None:
    """Pasted into the wrong key, a mistyped key or a URL, a secret stays out of the problems."""
    found = problems(mapping)
    assert found
    assert TOKEN not in "\n".join(found)


def test_a_result_shows_no_secret() -> None:
    """The printed form of a whole result holds no secret."""
    result = validated(named(token_file="/run/secrets/token"))
    assert result.configuration is not None
    assert result.configuration.workspaces[0].workspace.token == Secret(TOKEN)
    assert TOKEN not in repr(result)
