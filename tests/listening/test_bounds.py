"""What is remembered of sources is bounded, however many there are."""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter

from monitor.listening.refusals import RefusalReason, Refusals
from tests.clocks import ManualClock

ADDRESSES = [f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}" for index in range(100_000)]


def test_a_line_about_refusals_has_few_sources() -> None:
    """Of a hundred thousand sources a thousand are counted by address, and five are named."""
    counter = Counter("refusals", "What was refused.", ["reason"], registry=CollectorRegistry())
    refusals = Refusals("server", counter, reasons=list(RefusalReason), clock=ManualClock())
    for source in [*ADDRESSES, "192.0.2.1", "10.0.0.7"]:
        refusals.add(RefusalReason.FOREIGN_HOST, source)
    with structlog.testing.capture_logs() as lines:
        refusals.log_due()
        refusals.log_due()

    [line] = lines
    assert line["count"] == 100_002
    assert line["sources"]["others"] == 99_001
    assert line["sources"]["10.0.0.7"] == 2
    assert len(line["sources"]) == 5
    assert line["further_sources"] == 996
