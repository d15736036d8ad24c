"""Whatever a file or the environment holds, judging it ends with a verdict."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.config.environment import variable_of
from monitor.config.keys import Kind
from monitor.config.table import SECTIONS, written_keys
from tests.config.settings_tables import weighed, workspace

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
NAMES = sorted(
    {name for section in SECTIONS for name in written_keys(section)}
    | {key.name for section in SECTIONS for key in section.keys if key.kind is Kind.SECRET}
    | {section.path.rpartition(".")[2] for section in SECTIONS}
)
TABLES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
FILES = st.dictionaries(
    st.sampled_from(["workspaces", "mqtt", "server", "callbacks", "storage", "metrics", "log"]),
    VALUES | TABLES | st.lists(TABLES, max_size=3),
)
VARIABLES = st.dictionaries(
    st.sampled_from(
        [variable_of(one.path, name) for one in SECTIONS for name in written_keys(one)]
        + ["DATAPREP_MONITOR__", "DATAPREP_MONITOR____", "DATAPREP_MONITOR__WORKSPACES__A__URL"]
    ),
    st.text(max_size=10),
    max_size=4,
)


@given(mapping=FILES, environment=VARIABLES)
def test_every_file_gets_a_verdict(mapping: dict[str, Any], environment: dict[str, str]) -> None:
    """There is either a configuration or a fault, and each fault is one line."""
    verdict = weighed(mapping, environment)
    assert (verdict.configuration is None) == bool(verdict.faults)
    assert all(len(str(fault).splitlines()) == 1 for fault in verdict.faults)


@given(changes=TABLES)
def test_a_fault_in_one_workspace_leaves_the_other_alone(changes: dict[str, Any]) -> None:
    """Faults name the workspace that they are in."""
    verdict = weighed({"workspaces": [workspace("a"), {**workspace("b"), **changes}]})
    assert all(fault.key.startswith("workspaces[1]") for fault in verdict.faults)
