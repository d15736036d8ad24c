"""Samples of a metrics page, by name."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples_of(page: str, *names: str) -> list[Sample]:
    """Return the samples with these names, in the order of the page.

    The lines of others are not parsed: most tests ask for one name of a hundred, again and again.
    """
    beginnings = tuple(name + end for name in names for end in "{ ")
    lines = (line for line in page.split("\n") if line.startswith(beginnings))
    families = text_string_to_metric_families("".join(f"{line}\n" for line in lines))
    return [sample for family in families for sample in family.samples]
