"""Tests of the kinds: the description of a resource as data fits its records and its models."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from monitor.catalogue.operations import operations
from monitor.sandbox.api.models.models import models
from monitor.sandbox.api.resources import RESOURCES as TABLE
from monitor.sandbox.api.response.kinds import Kind, OnDelete
from monitor.sandbox.api.response.rendering import attribute_of
from monitor.sandbox.api.routes import HANDLERS, SERVING

KINDS, RESOURCES = TABLE.kinds, TABLE.resources
STAMPS = {"id", "createdAt", "updatedAt", "creator", "updater"}


def named(kind: Kind[Any]) -> str:
    return kind.name


def attributes(kind: Kind[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind.record)}


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_kind_shows_all_of_its_model(kind: Kind[Any]) -> None:
    """Each field of the model is kept, computed, always the same or a link, unless hand-written."""
    if kind.resource is not None:
        assert RESOURCES[kind.plural] is kind.resource
        return
    given = {
        *STAMPS,
        *kind.computed,
        *kind.constants,
        *kind.unshown,
        *(reference.shown for reference in kind.references),
    }
    kept = attributes(kind)
    lacking = [
        name
        for name in (*models()[kind.model], *kind.also_shown)
        if name not in given and attribute_of(kind, name) not in kept
    ]
    assert lacking == []


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_kind_reads_all_of_its_requests(kind: Kind[Any]) -> None:
    """Each field of a request is kept, a link, or named as one without effect."""
    sent = {
        name
        for reference in kind.references
        for name in (reference.sent, reference.shown)
        if reference.sent
    }
    kept = attributes(kind)
    lost = [
        f"{request}.{name}"
        for request in kind.requests
        for name in models()[request]
        if name not in sent and name not in kind.unkept and attribute_of(kind, name) not in kept
    ]
    assert lost == []


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_links_lead_from_attributes_to_resources(kind: Kind[Any]) -> None:
    """A link is an attribute of the record; what it embeds is in the table of resources."""
    for link in kind.references:
        assert link.attribute in attributes(kind)
        assert not (link.many and link.on_delete is OnDelete.CASCADE)
    assert kind.home in {"", *(link.attribute for link in kind.references)}
    for association in RESOURCES[kind.plural].associations.values():
        assert association.target in RESOURCES


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_names_of_a_kind_exist(kind: Kind[Any]) -> None:
    """Renamed fields are kept by the record, unkept ones are some request's."""
    request_fields = {name for request in kind.requests for name in models()[request]}
    assert set(kind.attributes.values()) <= attributes(kind)
    assert kind.unkept <= request_fields


def test_ids_of_one_kind_are_no_ids_of_another() -> None:
    """Kinds begin to count apart from each other, unless they share a counter on purpose."""
    first = [
        kind.record.first_id
        for kind in KINDS
        if kind.record.counts_with is None and kind.record.first_id
    ]
    assert len(first) == len(set(first))


def test_all_resources_can_be_embedded() -> None:
    """Associations have lower-case names, by which they are found, and known targets."""
    for name, resource in RESOURCES.items():
        assert name == name.lower()
        assert all(key == key.lower() for key in resource.associations)
        targets = {association.target for association in resource.associations.values()}
        assert targets <= RESOURCES.keys()


def test_a_kind_is_described_once() -> None:
    """No two kinds have the same records or the same name in the table."""
    records = [kind.record for kind in KINDS]
    plurals = [kind.plural for kind in KINDS]
    assert len(records) == len(set(records))
    assert len(plurals) == len(set(plurals))


def test_every_handler_serves_an_operation() -> None:
    """Handlers are named by operations of the catalogue, and no two modules serve the same."""
    served = [name for module in SERVING for name in module.HANDLERS]
    assert len(served) == len(set(served))
    assert set(served) == HANDLERS.keys() <= {operation.operation_id for operation in operations()}
