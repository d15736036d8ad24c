"""Rules of a file: what `check` accepts can be used, and can fire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.compiled import Compiled
from monitor.alerting.rules.rule_settings import Match, RuleKind
from tests.config.settings_tables import problems, validated, with_callbacks, workspace


def alert(rule: str, **changes: Any) -> dict[str, Any]:
    return {"rule": rule, **changes}


@pytest.mark.parametrize(
    ("rule", "inventory"), [("token_expiring", "tokens"), ("quality_dropped", "profiles")]
)
def test_a_rule_needs_the_data_it_evaluates(rule: str, inventory: str) -> None:
    """Only where nothing that it watches is read at all, and only where it was written."""
    off = workspace("off", inventory={inventory: False})
    mapping = {"workspaces": [off], "alerts": [alert(rule)]}
    assert problems(mapping) == [
        (
            f'alerts[0].rule: "{rule}": sees nothing of off; '
            f"set {inventory} = true in [workspaces.inventory]"
        )
    ]
    assert not problems({"workspaces": [off]})
    assert not problems({"workspaces": [off, workspace("on")], "alerts": [alert(rule)]})
    assert not problems({"workspaces": [off], "alerts": [alert(rule, enabled=False)]})
    for glob in ("off", "!on"):
        elsewhere = alert(rule, match={"workspace": glob})
        assert problems({"workspaces": [off, workspace("on")], "alerts": [elsewhere]})


def test_a_rule_for_callbacks_needs_callbacks() -> None:
    """With them it is accepted."""
    assert not problems({**with_callbacks(), "alerts": [alert("callbacks_missed")]})


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


@given(tables=st.lists(RULE_TABLES, max_size=2))
def test_accepted_rules_compile(tables: list[dict[str, Any]]) -> None:
    """No rule that `check` accepts is refused when the daemon starts, and none is lost."""
    result = validated({**with_callbacks(), "alerts": tables})
    if result.configuration is None:
        assert result.problems
        return
    rules = result.configuration.alerting.rules
    compiled = {rule.name for rule in Compiled(rules).rules}
    assert compiled <= {rule.name for rule in rules}
    names = [table.get("name", table["rule"]) for table in tables if table.get("enabled", True)]
    assert set(names) <= {rule.name for rule in rules}
