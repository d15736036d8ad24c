"""Which of a workspace's settings may be shown: rather too few than too many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.polling.inventory.masking import MASK, secret_names_in, tracked_settings

SALT = b"0123456789abcdef"
WORDS: tuple[str, ...] = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apiKey",
    "api_key",
)
WORDS += ("private-key", "ACCESS_KEY", "clientSecret", "authorization", "pwd", "pin", "signature")


def shown(configuration: dict[str, Any], *secret_names: str) -> dict[str, str]:
    """Return what would be shown of each setting."""
    settings = tracked_settings(configuration, secret_names=secret_names, salt=SALT)
    return {name: setting.shown for name, setting in settings.items()}


@given(
    word=st.sampled_from(WORDS),
    before=st.sampled_from(["", "smtp.", "mail_", "old-", "x/"]),
    behind=st.sampled_from(["", "2", ".value", "_prod", "-old"]),
    value=st.text(alphabet="qzjxkvw", min_size=8, max_size=30),
    depth=st.integers(0, 2),
)
def test_no_secret_is_kept_or_shown_under_any_name(
    word: str, before: str, behind: str, value: str, depth: int
) -> None:
    """Neither the text nor a part of it, however the name is written or nested."""
    name = f"{before}{word}{behind}"
    plain: dict[str, Any] = {name: value}
    for _ in range(depth):
        plain = {"mail": [plain]}
    settings = tracked_settings(plain, secret_names=(), salt=SALT)
    assert {setting.shown for setting in settings.values()} == {MASK}
    assert value not in repr(settings)


@pytest.mark.parametrize(
    "value",
    [
        "postgres://ada:hunter2@db/sales",
        "Bearer abc",
        "-----BEGIN PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.e30.x",
        "jdbc:sqlserver://db;user=a;password=b",
        '{"secretKey": "b"}',
        "AKIAIOSFODNN7EXAMPLE",
        "9f86d081884c7d659a2feaa0c55ad015",
    ],
)
def test_a_value_that_resembles_a_secret_is_hidden_under_any_name(value: str) -> None:
    """A harmless name does not make a secret harmless."""
    assert shown({"note": value}) == {"note": MASK}


def test_values_that_are_no_secrets_are_shown() -> None:
    """Switches, limits and plain texts are shown, under their whole names."""
    configuration = {
        "apiAccessTokens": {"enabled": True, "maximumLifetimeSeconds": -1},
        "region": "us-central1",
        "hosts": ["a", "b"],
        "nothing": None,
        "mail.password": "",
    }
    assert shown(configuration) == {
        "apiAccessTokens.enabled": "true",
        "apiAccessTokens.maximumLifetimeSeconds": "-1",
        "region": "us-central1",
        "hosts.0": "a",
        "hosts.1": "b",
        "nothing": "null",
        "mail.password": "",
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"motto": {"type": "string", "secret": True}},
        {"settings": [{"key": "motto", "type": "password"}]},
        {"data": [{"name": "motto", "isSecret": True, "value": "x"}]},
        {"properties": {"motto": {"format": "password"}}},
    ],
)
def test_values_that_the_workspace_calls_secret_are_hidden(schema: dict[str, Any]) -> None:
    """Every form of a schema's mark hides the value with all that lies below it."""
    names = secret_names_in(schema)
    assert "motto" in names
    configuration = {"motto": {"of": "the house"}, "size": 3}
    assert shown(configuration, *names) == {"motto.of": MASK, "size": "3"}


def test_settings_in_a_list_go_by_their_own_names() -> None:
    """An entry that carries its name beside its value is masked by that name."""
    entries = [{"key": "mail.password", "value": "qzjx"}, {"key": "size", "value": 3}]
    assert shown({"configuration": entries}) == {
        "configuration.mail.password": MASK,
        "configuration.size": "3",
    }


def test_a_secret_is_compared_without_being_kept() -> None:
    """Another secret is another digest, the same one the same, and another salt another again."""
    tracked_values = [
        tracked_settings({"password": text}, secret_names=(), salt=salt)["password"].stored
        for text, salt in (("a", SALT), ("b", SALT), ("a", SALT), ("a", b"other"))
    ]
    assert tracked_values[0] == tracked_values[2]
    assert len(set(tracked_values)) == 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_any_settings_can_be_masked(value: Any) -> None:
    """Whatever a workspace answers, each setting comes out bounded."""
    settings = tracked_settings({"one": value}, secret_names=("x",), salt=SALT)
    assert all(
        len(setting.shown) <= 500 and len(setting.stored) <= 500 for setting in settings.values()
    )
    assert secret_names_in(value) is not None
