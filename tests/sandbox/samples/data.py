"""Samples of the operations on connections, datasets and recipes."""

from __future__ import annotations

from tests.sandbox.samples.sample import Living, Sample


def furnish(_: Living) -> None:
    """Add nothing."""


SAMPLES: dict[str, Sample] = {}
