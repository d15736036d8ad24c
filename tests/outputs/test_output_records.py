"""Each output is known by its record alone, and a record costs a command line next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from monitor.outputs.event_output import EventOutput
from monitor.outputs.records import RECORDS
from monitor.outputs.settings import OutputRecord


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.section)
def test_a_record_and_its_class_name_each_other(record: OutputRecord) -> None:
    """Completion, configuration and summary know the outputs that the daemon builds."""
    output = record.load()
    assert issubclass(output, EventOutput)
    assert output.record is record


def test_records_load_no_library() -> None:
    """A key press that completes the name of an output waits for no client and no event loop."""
    code = (
        "import sys, monitor.outputs.records\n"
        "heavy = {'aiohttp', 'aiomqtt', 'paho', 'prometheus_client', 'structlog', 'asyncio'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "loaded: []\n"
