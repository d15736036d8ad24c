"""Samples of the operations on flows and folders."""

from __future__ import annotations

from monitor.sandbox.objects import Flow
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(_: Living) -> None:
    """Add nothing: the workspace of the tests has flows."""


SAMPLES = {
    "listFlows": Sample(),
    "countFlows": Sample(),
    "getFlow": Sample(path=of(Flow)),
    "runFlow": Sample(path=of(Flow), body=lambda _: {}),
}
