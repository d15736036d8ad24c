"""Holds the dashboard to Grafana's own types, to promtool, and to our metrics."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from ruamel.yaml import YAML

from tests.deploy.prometheus_files import dashboard, unknown_names, unknown_values
from tests.deploy.promql import TARGET_LABELS, read, series
from tests.deploy.test_deploy_files import checked
from tests.servers import program

DASHBOARD = dashboard()
COLUMNS = 24


def panels() -> list[dict[str, Any]]:
    """Return what shows something: all panels but the rows."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def plain(expression: str) -> str:
    """Put values in the place of Grafana's variables, so that Prometheus can read the rest."""
    return expression.replace("$__rate_interval", "5m").replace("$", "any")


def expressions() -> list[str]:
    """Return every query that Grafana sends: of panels and of annotations."""
    expressions_of_panels = [target["expr"] for panel in panels() for target in panel["targets"]]
    return expressions_of_panels + [
        annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]
    ]


def lost(before: object, after: object, location: str = "") -> Iterator[str]:
    """Name what Grafana's types did not keep, by its location."""
    if isinstance(before, dict):
        known = after if isinstance(after, dict) else {}
        for key, value in before.items():
            yield from (
                lost(value, known[key], f"{location}.{key}")
                if key in known
                else [f"{location}.{key}"]
            )
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from lost(old, new, f"{location}[{number}]")
    elif before != after:
        yield location


def unknown_to_grafana(document: dict[str, Any]) -> list[str]:
    register_default_plugins()
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return list(
        lost(document, json.loads(encoder.encode(Dashboard.from_json(copy.deepcopy(document)))))
    )


def test_grafana_knows_everything_in_the_dashboard() -> None:
    """Read into Grafana's types and written again, no key and no value is gone."""
    assert unknown_to_grafana(DASHBOARD) == []


def test_an_unknown_key_is_reported() -> None:
    """The test above would see a misspelt option, at every depth."""
    document = copy.deepcopy(DASHBOARD)
    document["panels"][1]["fieldConfig"]["defaults"]["unti"] = "s"
    document["panels"][1]["options"]["colourMode"] = "none"
    document["refesh"] = "1m"
    assert sorted(unknown_to_grafana(document)) == [
        ".panels[1].fieldConfig.defaults.unti",
        ".panels[1].options.colourMode",
        ".refesh",
    ]


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    """Each query would be a valid rule."""
    dashboard_rules = [
        {"record": f"query:{n}", "expr": plain(expression)}
        for n, expression in enumerate(expressions())
    ]
    file = tmp_path / "queries.yaml"
    YAML().dump({"groups": [{"name": "dashboard", "rules": dashboard_rules}]}, file)
    assert f"{len(dashboard_rules)} rules found" in checked(
        program("promtool"), "check", "rules", file
    )


@pytest.mark.parametrize("expression", expressions())
def test_queries_use_only_existing_series(expression: str) -> None:
    """Each metric is one of ours or recorded from ours, and has the labels that are used."""
    query = read(plain(expression))
    assert query.metrics
    assert unknown_names(query) == []
    assert unknown_values(expression) == []


def test_variables_are_filled_and_used() -> None:
    """Each variable gets its values from a label of ours, and each one that is used exists."""
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    for variable in variables.values():
        if variable["type"] == "query":
            label_values = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert label_values is not None
            query = read(plain(label_values[1]))
            assert unknown_names(query) == []
            assert label_values[2] in series()[query.metrics[0][0]]
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?([a-z]+)", text))
    assert used == set(variables)


def test_legends_name_labels_that_are_left() -> None:
    """Each label that a legend shows is among the labels of its query, after all sums."""
    for panel in panels():
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            query = read(plain(target["expr"]))
            own = {label for name, _ in query.metrics for label in labels_of(name)}
            summed = re.match(r"(sum|max|min|count) by \(([^)]*)\)", target["expr"])
            assert named <= (set(summed[2].split(", ")) if summed else own), target["expr"]


def labels_of(name: str) -> set[str]:
    level = name.partition(":")[0].split("_") if ":" in name else ()
    return {*level, *series().get(name, ()), *TARGET_LABELS}


def test_panels_have_a_position_and_a_description() -> None:
    """None overlaps another or the edge; ids are unique, titles and descriptions present."""
    occupied: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        location = panel["gridPos"]
        own = {
            (x, y)
            for x in range(location["x"], location["x"] + location["w"])
            for y in range(location["y"], location["y"] + location["h"])
        }
        assert not own & occupied
        assert location["x"] + location["w"] <= COLUMNS
        occupied |= own
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["title"] and panel["description"] for panel in panels())


def test_every_query_goes_to_the_chosen_prometheus() -> None:
    """No panel is bound to the data source of its author."""
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    sources = [panel["datasource"] for panel in panels()]
    sources += [target["datasource"] for panel in panels() for target in panel["targets"]]
    assert sources
    assert all(source == chosen for source in sources)
