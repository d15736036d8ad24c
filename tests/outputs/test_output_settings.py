"""Settings of Alertmanagers and the webhook that cannot work."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.settings import receiver_of
from monitor.outputs.webhook.settings import signing_key

KEY = "whsec_" + base64.b64encode(b"k" * 32).decode()
ALERTMANAGER = AlertmanagerSettings(urls=("http://localhost:9093",))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"password": Secret("pw")}, "username: is needed beside the password"),
        ({"username": "ada", "token": Secret("t")}, "token: either a token or a username"),
    ],
)
def test_settings_of_an_alertmanager_that_do_not_fit_are_one_sentence(
    changes: dict[str, Any], problem: str
) -> None:
    """It names the key and the hint, and shows no secret."""
    assert ALERTMANAGER.problems() == []
    (text,) = msgspec.structs.replace(ALERTMANAGER, **changes).problems()
    assert text.startswith(problem)
    assert "pw" not in text.replace("password", "")


@pytest.mark.parametrize("text", ["plain words", KEY.removeprefix("whsec_"), "whsec_c2hvcnQ="])
def test_a_text_that_signs_nothing_is_refused_unseen(text: str) -> None:
    """The sentence says what a signing secret is, and does not repeat the text."""
    with pytest.raises(ConfigurationError, match="must be whsec_ and 24 to 64 bytes") as caught:
        signing_key(Secret(text))
    assert text not in str(caught.value)


def test_a_signing_secret_may_end_with_the_line_break_of_its_file() -> None:
    """It stands for the same bytes."""
    assert signing_key(Secret(f"{KEY}\n")) == signing_key(Secret(KEY)) == b"k" * 32


@pytest.mark.parametrize(
    ("url", "receiver"),
    [
        ("http://one", "one:80"),
        ("https://one/", "one:443"),
        ("https://one:9093/alerts/", "one:9093/alerts"),
        ("http://[::1]:9093", "[::1]:9093"),
    ],
)
def test_a_receiver_is_named_by_host_port_and_path(url: str, receiver: str) -> None:
    """Two spellings of an address give one name, so one position in the log."""
    assert receiver_of(url) == receiver
