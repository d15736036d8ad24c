"""Channels in the configuration: what does not fit together, and where that is said."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.outputs.notify.settings import NotifySettings
from tests.config.settings_tables import channel, file, parsed, problems


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        (
            file(notify=[channel("a"), channel("b"), channel("a")]),
            'notify[2].name: "a": is the name of notify[0] already; choose another',
        ),
        (
            file(notify=[channel("a", to="owner", url_file="/run/secrets/mail")]),
            (
                'notify[0].owner_domains: []: is needed with to = "owner", so that mail goes '
                'to your own people only; add it, such as ["example.com"]'
            ),
        ),
        (
            file(notify=[channel("a", to="owner", owner_domains=["example.com"])]),
            'notify[0].to: "owner": only mail goes to owners; give a mailtos:// URL, or remove it',
        ),
        (
            file(notify=[channel("a", url_file="/run/secrets/token")]),
            (
                "notify[0].url: ***: is no URL in Apprise's notation: it is not known, or lacks a "
                "part; https://appriseit.com/services shows those of each service"
            ),
        ),
    ],
)
def test_a_channel_that_cannot_be_meant_is_one_problem(
    mapping: dict[str, Any], problem: str
) -> None:
    """Names, owners and URLs of channels have one sentence each, without the secret."""
    assert problems(mapping) == [problem]


def test_channels_are_read_in_their_order() -> None:
    """Each table is a channel of its own; what is not set has its default."""
    notify = parsed(file(notify=[channel("b", group_by=[]), channel("a")])).output(NotifySettings)
    assert notify is not None
    assert [settings.name for settings in notify.channels] == ["b", "a"]
    assert [settings.group_by for settings in notify.channels] == [(), ("workspace",)]
