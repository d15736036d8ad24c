"""Metric registries: series that end with a shard, and those of the process, which outlive it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Metric

T = TypeVar("T")

WORKSPACE, SHARD = "workspace", "shard"  # labels


class PartRegistry(CollectorRegistry):
    """Series that end before the process does."""

    def __init__(self, process: CollectorRegistry) -> None:
        super().__init__()
        self.process = process_registry(process)


class ShardRegistry(PartRegistry):
    """Series that end with a shard. Those without a workspace get the name of the shard."""

    def __init__(self, process: CollectorRegistry, *, shard: str) -> None:
        super().__init__(process)
        self._shard = shard

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            if self._shard:
                metric.samples = [
                    sample
                    if WORKSPACE in sample.labels
                    else sample._replace(labels={**sample.labels, SHARD: self._shard})
                    for sample in metric.samples
                ]
            yield metric


def process_registry(registry: CollectorRegistry) -> CollectorRegistry:
    """Return the registry of what ends with the process: itself, where it is of no part."""
    return registry.process if isinstance(registry, PartRegistry) else registry


def made_once(make: Callable[[CollectorRegistry], T], registry: CollectorRegistry) -> T:
    """Return what ``make`` makes in a registry, made at the first call.

    A registry takes each name once, and all that is hosted in the process counts into it.
    """
    made = _made.setdefault(registry, {})
    if make not in made:
        made[make] = make(registry)
    kept: T = made[make]
    return kept


_made: WeakKeyDictionary[CollectorRegistry, dict[Callable[[CollectorRegistry], Any], Any]]
_made = WeakKeyDictionary()
