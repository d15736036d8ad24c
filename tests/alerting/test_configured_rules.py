"""Rules of a file: what `check` takes can be used, and can fire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerting.compiled import Compiled
from monitor.alerting.settings.rules import Match, RuleKind
from tests.config.settings_tables import faults, weighed, with_callbacks, workspace


def alert(rule: str, **changes: Any) -> dict[str, Any]:
    return {"rule": rule, **changes}


@pytest.mark.parametrize(
    ("rule", "beyond"), [("token_expiring", "tokens"), ("quality_dropped", "profiles")]
)
def test_a_rule_needs_what_it_is_judged_by(rule: str, beyond: str) -> None:
    """Only where nothing that it watches is read at all, and only where it was written."""
    off = workspace("off", beyond={beyond: False})
    mapping = {"workspaces": [off], "alerts": [alert(rule)]}
    assert faults(mapping) == [
        f'alerts[0].rule: "{rule}": sees nothing of off; set {beyond} = true in [workspaces.beyond]'
    ]
    assert not faults({"workspaces": [off]})
    assert not faults({"workspaces": [off, workspace("on")], "alerts": [alert(rule)]})
    assert not faults({"workspaces": [off], "alerts": [alert(rule, enabled=False)]})
    for glob in ("off", "!on"):
        elsewhere = alert(rule, match={"workspace": glob})
        assert faults({"workspaces": [off, workspace("on")], "alerts": [elsewhere]})


def test_a_rule_for_callbacks_needs_callbacks() -> None:
    """With them it is taken."""
    assert not faults({**with_callbacks(), "alerts": [alert("callbacks_missed")]})


GLOBS = st.sampled_from(["marketing", "m*", "*", "[a", "Orders", "flow_run", "schedule"])
TEMPLATES = st.text(st.sampled_from("{}pieln:! rous"), max_size=12) | st.sampled_from(
    ["{pipeline}", "{error}", "{run}"]
)
RULE_TABLES = st.fixed_dictionaries(
    {"rule": st.sampled_from(sorted(RuleKind))},
    optional={
        "name": st.sampled_from(["a", "b", "run_failed"]),
        "threshold": st.sampled_from([0.5, 1, 3, 600]),
        "minimum": st.integers(0, 30),
        "window_seconds": st.sampled_from([60, 3_600]),
        "for_seconds": st.sampled_from([0, 5]),
        "labels": st.dictionaries(st.sampled_from(["team", "a-b"]), st.text(max_size=3)),
        "annotations": st.dictionaries(st.sampled_from(["summary", "x"]), TEMPLATES),
        "mute": st.lists(st.sampled_from(["Sat UTC", "22:00-06:00 Europe/Berlin", "x"])),
        "match": st.dictionaries(
            st.sampled_from(Match.__struct_fields__), GLOBS | st.lists(GLOBS, max_size=3)
        ),
        "enabled": st.booleans(),
    },
)


@settings(max_examples=150, deadline=None)
@given(tables=st.lists(RULE_TABLES, max_size=2))
def test_what_is_taken_compiles(tables: list[dict[str, Any]]) -> None:
    """No rule that `check` takes is refused when the daemon starts, and none is lost."""
    verdict = weighed({**with_callbacks(), "alerts": tables})
    if verdict.configuration is None:
        assert verdict.faults
        return
    rules = verdict.configuration.alerting.rules
    compiled = {one.name for one in Compiled.of(rules).rules}
    assert compiled <= {one.name for one in rules}
    names = [one.get("name", one["rule"]) for one in tables if one.get("enabled", True)]
    assert set(names) <= {one.name for one in rules}
