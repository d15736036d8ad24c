"""Each kind of resource fits its models and its record."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.kinds.resources import attribute_of
from monitor.sandbox.http.kinds.table import KINDS, RESOURCES, referrers
from monitor.sandbox.http.showing.models import models

STAMPED = {"id", "createdAt", "updatedAt", "creator", "updater"}
named = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def attributes(kind: Kind[Any]) -> set[str]:
    return {one.name for one in fields(kind.record)}


@named
def test_every_field_of_the_model_is_shown(kind: Kind[Any]) -> None:
    """What the kind's model names is kept, computed or constant, unless a shape was written."""
    if kind.resource is not None:
        return
    elsewhere = {*STAMPED, *kind.computed, *kind.constants, *(one.shown for one in kind.references)}
    missing = [
        name
        for name in (*models()[kind.model], *kind.also_shown)
        if name not in elsewhere and attribute_of(kind, name) not in attributes(kind)
    ]

    assert missing == []


@named
def test_every_field_of_a_request_is_kept_or_has_no_effect(kind: Kind[Any]) -> None:
    """Nothing that is sent is lost in silence: the kind keeps it, links by it, or says so."""
    links = {name for one in kind.references for name in (one.sent, one.shown) if one.sent}
    lost = [
        f"{request}.{name}"
        for request in kind.requests
        for name in models()[request]
        if name not in links
        and name not in kind.unkept
        and attribute_of(kind, name) not in attributes(kind)
    ]

    assert lost == []


@named
def test_what_a_kind_names_exists(kind: Kind[Any]) -> None:
    """Attributes of links and of the home are the record's; unkept fields are those of requests."""
    linked = {one.attribute for one in kind.references}
    taken = {name for request in kind.requests for name in models()[request]}

    assert linked <= attributes(kind)
    assert set(kind.attributes.values()) <= attributes(kind)
    assert not kind.home or kind.home in linked
    assert kind.unkept <= taken
    assert kind.plural in RESOURCES


@named
def test_links_lead_both_ways(kind: Kind[Any]) -> None:
    """Whatever a kind links to knows the kind as one that refers to it."""
    for one in kind.references:
        assert (kind, one) in referrers(one.target)


def test_ids_of_one_kind_are_no_ids_of_another() -> None:
    """Kinds begin to count apart from each other, unless they share a counter on purpose."""
    first = Counter(
        kind.record.first_id
        for kind in KINDS
        if kind.record.counts_with is None and kind.record.first_id
    )

    assert [number for number, times in first.items() if times > 1] == []


def test_a_record_has_one_kind_and_a_kind_one_name() -> None:
    """No two kinds show the same record, or share a name in the table of resources."""
    assert len({kind.record for kind in KINDS}) == len({kind.plural for kind in KINDS})
    assert len({kind.record for kind in KINDS}) == len(KINDS)
