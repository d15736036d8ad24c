"""Expositions held to some workspaces."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from monitor.web.restricted.metric_lines import lines_about

NAMES = (
    "acme",
    'ac"me',
    "ac\\me",
    "ac\nme",
    "hidden",
    "acme,workspace=hidden",
    'x",workspace="acme',
)


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    runs = Counter("runs", "Runs.", ["pipeline", "workspace"], registry=made)
    for name in NAMES:
        runs.labels(f'of,workspace="acme" {name}', name).inc(1, exemplar={"workspace": "acme"})
    Counter("sum", "Over all.", registry=made).inc(1, exemplar={"workspace": "acme"})
    Gauge("other", "Of others.", ["workspace"], registry=made).labels("hidden").set(1)
    return made


def test_each_name_is_seen_by_itself() -> None:
    """Whatever a label holds, a series is kept exactly where its own workspace is seen."""
    whole = generate_latest(registry())
    for seen in NAMES:
        text = lines_about(whole, seen.__eq__).decode()
        samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]
        assert {sample.labels["workspace"] for sample in samples} == {seen}
        assert ("# HELP other" in text) == (seen == "hidden")


def test_the_end_of_openmetrics_is_kept() -> None:
    """A scraper takes an exposition without its last line for one that was cut."""
    text = lines_about(
        generate_openmetrics(registry()),  # type: ignore[no-untyped-call]
        lambda name: name == "acme",
    ).decode()

    assert text.endswith("# EOF\n")
    assert "runs_total{" in text
    assert "sum" not in text


def test_a_value_that_ends_like_a_label_names_no_workspace() -> None:
    """Else who sees all workspaces but one would see the series of a pipeline of that name."""
    made = CollectorRegistry()
    runs = Counter("runs", "Runs.", ["pipeline", "result", "workspace"], registry=made)
    runs.labels("x,workspace=", "failed", "hidden").inc()

    assert lines_about(generate_latest(made), lambda name: name != "hidden") == b""
