"""The reference of metrics in ``deploy/METRICS.md``."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.app.metrics_reference import main, metrics_reference, read_metrics

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "deploy" / "METRICS.md"


async def test_the_reference_is_what_a_daemon_has() -> None:
    """Every metric is listed with its labels; a new or changed one needs the command again."""
    entries = await read_metrics()
    assert REFERENCE.read_text() == metrics_reference(entries), (
        "run python -m monitor.app.metrics_reference deploy/METRICS.md"
    )
    by_name = {entry.name: entry for entry in entries}
    assert len(by_name) == len(entries)
    assert all(entry.documentation.endswith(".") for entry in entries)
    # Of the collector, of the client library, of a workspace, of an output and of the listener.
    assert by_name["dataprep_runs_total"].labels == ("workspace", "kind", "pipeline", "result")
    assert by_name["dataprep_monitor_store_bytes"].unit == "bytes"
    assert by_name["dataprep_monitor_polls_total"].labels == ("workspace", "poll", "outcome")
    assert by_name["dataprep_monitor_mqtt_connected"].labels == ("broker",)
    assert "dataprep_monitor_callback_requests_total" in by_name


def test_the_command_wants_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one it says how it is used."""
    assert main([]) == 2
    assert "FILE" in capsys.readouterr().err
