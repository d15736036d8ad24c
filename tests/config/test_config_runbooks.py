"""Where alerts link to."""

from __future__ import annotations

import socket

from monitor.alerting.settings import RuleKind
from tests.config.settings_tables import file, parsed, problems


def test_alerts_carry_their_runbook_below_a_location() -> None:
    """Each default links to the section of its kind; a rule's own link stays."""
    own = {"rule": "run_failed", "annotations": {"runbook_url": "https://wiki/runs"}}
    alerting = {"runbooks": "https://git.example.com/runbooks.md"}
    for given, location in (({}, "deploy/runbooks.md"), (alerting, alerting["runbooks"])):
        rules = parsed(file(alerting=given, alerts=[own])).alerting.rules
        links = {rule.rule: rule.annotations["runbook_url"] for rule in rules}
        assert links.pop(RuleKind.RUN_FAILED) == "https://wiki/runs"
        assert links == {kind: f"{location}#{kind}" for kind in links}
        assert len(links) > 10
    assert "alerting.runbooks" in problems(file(alerting={"runbooks": "a#b"}))[0]


def test_without_a_location_the_link_leads_to_the_page_of_the_daemon() -> None:
    """A location of the file wins, and while the port is not known the path stays."""
    page, copy = "http://monitor.example.com:9876/runbooks", "https://wiki.example/runbooks.md"
    open_server = {"listen": "0.0.0.0:9876", "allow_anonymous": True}
    own = {"rule": "run_failed", "annotations": {"runbook_url": "https://wiki/runs"}}
    for server, alerting, location in (
        ({}, {}, "http://127.0.0.1:9876/runbooks"),
        ({**open_server, "hosts": ["monitor.example.com"]}, {}, page),
        ({**open_server}, {}, f"http://{socket.gethostname()}:9876/runbooks"),
        ({"listen": "[::1]:80"}, {}, "http://[::1]:80/runbooks"),
        ({}, {"runbooks": copy}, copy),
        ({"listen": "127.0.0.1:0"}, {}, "deploy/runbooks.md"),
    ):
        settings = parsed(file(server=server, alerting=alerting, alerts=[own]))
        rules = settings.linked_alerting.rules
        links = {rule.rule: rule.annotations["runbook_url"] for rule in rules}
        assert links.pop(RuleKind.RUN_FAILED) == "https://wiki/runs"
        assert links == {kind: f"{location}#{kind}" for kind in links}
