"""Channels in the configuration: what does not fit together, and where that is said."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.alerting.settings import RuleKind
from monitor.outputs.notify.settings import NotifySettings
from tests.config.settings_tables import channel, file, parsed, problems, with_rules


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
            file(notify=[channel("a", match={"rule": ["runs_faild", "orders_late"]})]),
            (
                'notify[0].match.rule: ["runs_faild", "orders_late"]: no rule fits "runs_faild"; '
                'did you mean run_failed?; and no rule fits "orders_late"; there are '
                f"{', '.join(RuleKind)}"
            ),
        ),
        (
            file(notify=[channel("a", match={"workspace": "market"})]),
            (
                'notify[0].match.workspace: ["market"]: no workspace fits "market"; did you mean '
                "marketing?"
            ),
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


def test_a_channel_may_name_any_rule_and_the_daemon_itself() -> None:
    """Kinds that are off by default, names of one's own rules, and alerts without a workspace."""
    match = {"rule": ["canceled", "orders_*", "!run_lost"], "workspace": ["bridge", "market*"]}
    late = {"rule": "run_overdue", "name": "orders_late"}
    mapping = {**with_rules(late), "notify": [channel("a", match=match)]}
    assert problems(mapping) == []


def test_nothing_follows_from_a_problem_of_a_name() -> None:
    """A name that is wrong, or no workspace at all, is one problem, whatever channels match."""
    late = {"rule": "run_overdue", "name": "Orders late"}
    match = {"rule": ["Orders late"], "workspace": ["market*"]}
    mapping: dict[str, Any] = {**with_rules(late), "notify": [channel(match=match)]}
    assert [problem.split(":")[0] for problem in problems(mapping)] == ["alerts[0].name"]
    del mapping["alerts"], match["rule"]
    mapping["workspaces"] = []
    assert [problem.split(":")[0] for problem in problems(mapping)] == ["workspaces"]


def test_channels_are_read_in_their_order() -> None:
    """Each table is a channel of its own; what is not set has its default."""
    notify = parsed(file(notify=[channel("b", group_by=[]), channel("a")])).output(NotifySettings)
    assert notify is not None
    assert [settings.name for settings in notify.channels] == ["b", "a"]
    assert [settings.group_by for settings in notify.channels] == [(), ("workspace",)]
