"""Samples of the operations on packages and environment parameters."""

from __future__ import annotations

from tests.sandbox.samples.sample import Living, Sample


def furnish(_: Living) -> None:
    """Add nothing."""


SAMPLES: dict[str, Sample] = {}
