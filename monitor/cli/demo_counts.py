"""Three independent counts of the same ends, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

Ends = Mapping[tuple[str, str], int]  # (kind, result) -> how many runs ended so

_RESULTS = ("succeeded", "failed", "canceled", "lost")


class Summary(Struct, frozen=True, kw_only=True):
    """The counts of each kind of run that can be followed in the edition."""

    kinds: tuple[str, ...]
    ledger: Counter[tuple[str, str]]
    mqtt: Counter[tuple[str, str]]
    metrics: Counter[tuple[str, str]]

    @property
    def agrees(self) -> bool:
        """True when all three are equal for every kind and result."""
        return all(
            self.ledger[kind, result] == self.mqtt[kind, result] == self.metrics[kind, result]
            for kind in self.kinds
            for result in _RESULTS
        )

    @property
    def empty_kinds(self) -> list[str]:
        """Kinds of which no run ended, so that nothing was shown."""
        return [
            kind for kind in self.kinds if not any(self.ledger[kind, result] for result in _RESULTS)
        ]

    def rows(self) -> Iterable[tuple[str, ...]]:
        """Yield kind, result and the three counts, where one of them is not 0."""
        for kind in self.kinds:
            for result in _RESULTS:
                counts = [source[kind, result] for source in (self.ledger, self.mqtt, self.metrics)]
                if any(counts):
                    yield kind, result, *map(str, counts)


def ends_of_ledger(results: Mapping[str, Mapping[str, int]]) -> Counter[tuple[str, str]]:
    """Return the sandbox's own count."""
    return Counter(
        {(kind, result): n for kind, counted in results.items() for result, n in counted.items()}
    )


def ends_of_metrics(text: str) -> Counter[tuple[str, str]]:
    """Return the count of a scrape, read as a scraper reads it."""
    ends: Counter[tuple[str, str]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "dataprep_runs_total":
                ends[sample.labels["kind"], sample.labels["result"]] += int(sample.value)
    return ends
