"""All resources: what can be shown or embedded, and what hangs on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.sandbox.http.data import kinds as data
from monitor.sandbox.http.flows import kinds as flows
from monitor.sandbox.http.kinds.kind import Kind, Reference
from monitor.sandbox.http.kinds.resources import resource_of
from monitor.sandbox.http.outputs import kinds as outputs
from monitor.sandbox.http.packages import kinds as packages
from monitor.sandbox.http.people import kinds as people
from monitor.sandbox.http.plans import kinds as plans
from monitor.sandbox.http.runs import kinds as runs
from monitor.sandbox.http.schedules import kinds as schedules
from monitor.sandbox.http.showing.rendering import Resource
from monitor.sandbox.http.webhooks import kinds as webhooks
from monitor.sandbox.http.workspace import kinds as workspace
from monitor.sandbox.records.objects import (
    Flow,
    ImportedDataset,
    Person,
    Plan,
    Publication,
    Recipe,
    Record,
)

_FAMILIES = (data, flows, outputs, packages, people, plans, runs, schedules, webhooks, workspace)

KINDS: tuple[Kind[Any], ...] = tuple(kind for family in _FAMILIES for kind in family.KINDS)

# The names of resources that no kind defines: their shapes were written by hand.
_NAMES: dict[type[Record], str] = {
    Flow: "flows",
    Person: "people",
    Plan: "plans",
    Recipe: "wrangleddatasets",
    ImportedDataset: "importeddatasets",
    Publication: "publications",
    **{kind.record: kind.plural for kind in KINDS},
}

# By the name in the API's messages.
RESOURCES: dict[str, Resource] = {
    **{name: resource for family in _FAMILIES for name, resource in family.RESOURCES.items()},
    **{kind.plural: resource_of(kind, _NAMES) for kind in KINDS},
}

_BY_RECORD: dict[type[Record], Kind[Any]] = {kind.record: kind for kind in KINDS}
_REFERRERS: dict[type[Record], list[tuple[Kind[Any], Reference]]] = {}
for _kind in KINDS:
    for _link in _kind.references:
        _REFERRERS.setdefault(_link.target, []).append((_kind, _link))


def kind_of(record: type[Record]) -> Kind[Any] | None:
    """Return the kind of a type of records; None for those that nobody makes by the API."""
    return _BY_RECORD.get(record)


def referrers(target: type[Record]) -> Sequence[tuple[Kind[Any], Reference]]:
    """Return the kinds that hold links to records of ``target``, each with its reference."""
    return _REFERRERS.get(target, ())
