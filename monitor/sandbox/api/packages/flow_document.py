"""Checks the vendor's flow document for what reading it needs; the rest may be anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

Document: TypeAlias = dict[str, Any]
Id: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]


class VendorNode(Struct, frozen=True, kw_only=True, rename="camel"):
    id: Id
    script_id: Id | None = None
    flow_node_id: Id | None = None
    wrangled: bool = False


class VendorEdge(Struct, frozen=True, kw_only=True, rename="camel"):
    id: Id
    in_flow_node_id: Id
    out_flow_node_id: Id
    in_port_id: int | None = None
    out_port_id: int | None = None


class VendorPart(Struct, frozen=True, kw_only=True):
    id: Id


class VendorRecipe(VendorPart, frozen=True, kw_only=True):
    name: str = ""


class VendorParameter(Struct, frozen=True, kw_only=True, rename="camel"):
    run_parameter_edit: Document | None = None


class Parameterized(VendorPart, frozen=True, kw_only=True, rename="camel"):
    run_parameters: list[VendorParameter] = []


class RelationalSource(Struct, frozen=True, kw_only=True, rename="camel"):
    relational_path: list[str] | None = None
    table_name: str | None = None
    raw: list[str] | None = None


class VendorSource(Parameterized, frozen=True, kw_only=True, rename="camel"):
    parsing_script_id: Id
    type: str | None = None
    bucket: str | None = None
    path: str | None = None
    relationalsource: RelationalSource | None = None


class VendorOutput(VendorPart, frozen=True, kw_only=True, rename="camel"):
    flow_node_id: Id
    writesettings: list[Parameterized] = []
    publications: list[Parameterized] = []
    sql_scripts: list[Parameterized] = []


class VendorWebhook(VendorPart, frozen=True, kw_only=True):
    flownodes: list[VendorPart] = []


class VendorFlow(Struct, frozen=True, kw_only=True):
    """What a flow must have so that its parts can be put together; the rest is as it comes."""

    id: Id
    name: str
    flownodes: list[VendorNode] = []
    flowedges: list[VendorEdge] = []
    recipes: list[VendorRecipe] = []
    datasources: list[VendorSource] = []
    outputobjects: list[VendorOutput] = []
    webhookflowtasks: list[VendorWebhook] = []
    flowrunparameteroverrides: list[VendorPart] = []
    flownotificationsettings: list[VendorPart] = []


class VendorMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    primary_flow_ids: list[Id]
    exported_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    comment: str | None = None


class VendorData(Struct, frozen=True, kw_only=True):
    flows: list[VendorFlow]
    connections: list[VendorPart] = []
    userdefinedfunctions: list[VendorPart] = []


class FlowDocument(Struct, frozen=True, kw_only=True):
    metadata: VendorMetadata
    data: VendorData
    type: str = "flow"
