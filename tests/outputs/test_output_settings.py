"""Problems of settings of Alertmanagers and the webhook that cannot work."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from monitor.model.secrets import Secret
from monitor.outputs.settings import AlertmanagerSettings, WebhookSettings, receiver_of

KEY = "whsec_" + base64.b64encode(b"k" * 32).decode()
ALERTMANAGER = AlertmanagerSettings(urls=("http://localhost:9093",))
WEBHOOK = WebhookSettings(url="https://example.org/hook", secret=Secret(KEY))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"urls": ()}, "urls: name at least one Alertmanager"),
        ({"urls": ("localhost:9093",)}, "urls: must begin with http:// or https://"),
        ({"urls": ("http://ada:pw@localhost",)}, "urls: holds credentials"),
        ({"urls": ("http://localhost/?a=1",)}, "urls: no query may follow the path"),
        ({"urls": ("http://one", "http://one:80/")}, "urls: one Alertmanager is named twice"),
        ({"urls": ("http://[::1",)}, "urls: not a URL"),
        ({"urls": ("http://one:0",)}, "urls: port 0"),
        ({"urls": ("http://a b",)}, "urls: names no host"),
        ({"password": Secret("pw")}, "username: is needed beside the password"),
        ({"username": "ada", "token": Secret("t")}, "token: either a token or a username"),
        ({"token": Secret("t\n")}, "token: has a character that no header can carry"),
        ({"resend_seconds": 0.0}, "resend_seconds: must be above 0 seconds"),
    ],
)
def test_each_problem_of_an_alertmanager_is_one_sentence(
    changes: dict[str, Any], problem: str
) -> None:
    """It names the key and the hint, and shows no secret."""
    (text,) = msgspec.structs.replace(ALERTMANAGER, **changes).problems()
    assert text.startswith(problem)
    assert "pw" not in text.replace("password", "")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"url": "ftp://example.org"}, "url: must begin with http:// or https://"),
        ({"url": "https://example.org/#a"}, "url: nothing may follow a #"),
        ({"secret": Secret("plain words")}, "secret: must be whsec_ and 24 to 64 bytes"),
        ({"secret": Secret(KEY.removeprefix("whsec_"))}, "secret: must be whsec_"),
        ({"former_secret": Secret("whsec_c2hvcnQ=")}, "former_secret: must be whsec_"),
        ({"events": ()}, "events: name at least one type"),
        ({"events": ("alert.fire",)}, "events: no event type matches 'alert.fire'; did you mean"),
        ({"workers": 0}, "workers: must be at least 1"),
        ({"timeout_seconds": -1.0}, "timeout_seconds: must be above 0 seconds"),
    ],
)
def test_each_problem_of_the_webhook_is_one_sentence(changes: dict[str, Any], problem: str) -> None:
    """It names the key and the hint, and shows no secret."""
    (text,) = msgspec.structs.replace(WEBHOOK, **changes).problems()
    assert text.startswith(problem)
    assert "plain words" not in text
    assert KEY.removeprefix("whsec_") not in text


def test_settings_that_work_have_no_problem() -> None:
    """A secret that ends with the line break of its file is no problem either."""
    line = msgspec.structs.replace(WEBHOOK, secret=Secret(f"{KEY}\n"))
    assert [*ALERTMANAGER.problems(), *WEBHOOK.problems(), *line.problems()] == []


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
