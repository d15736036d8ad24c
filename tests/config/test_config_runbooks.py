"""Where alerts link to."""

from __future__ import annotations

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
