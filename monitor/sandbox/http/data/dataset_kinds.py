"""Imported datasets, and the places that they have in flows."""

from __future__ import annotations

from urllib.parse import urlsplit

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.kind import Kind, OnDelete, Reference
from monitor.sandbox.http.kinds.shapes import NAMED, OWN, stamps
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference
from monitor.sandbox.lineage import flow_ids_with
from monitor.sandbox.records.data import DatasetNode
from monitor.sandbox.records.objects import Connection, Flow, ImportedDataset
from monitor.sandbox.world import WORKSPACE_ID

# Files whose columns are known by their form.
FILES_WITH_COLUMNS = (".csv", ".tsv", ".json", ".avro", ".parquet", ".xlsx", ".xls")


def is_schematized(one: ImportedDataset) -> bool:
    """True where the columns are known: tables, queries and files of a form that has them."""
    if one.connection_id is not None:
        return True
    return (one.uri or one.dynamic_path or "").lower().endswith(FILES_WITH_COLUMNS)


def type_of(one: ImportedDataset) -> str:
    """Return where the data lies: ``jdbc``, or the scheme of the file's address."""
    if one.connection_id is not None and one.uri is None:
        return "jdbc"
    return urlsplit(one.uri or "").scheme or "file"


def storage_location(one: ImportedDataset) -> Json:
    """Return where the file lies; None for what is no file."""
    if one.uri is None:
        return None
    address = urlsplit(one.uri)
    return {
        "fullUri": one.uri,
        "type": type_of(one),
        "container": address.netloc or None,
        "path": address.path,
    }


def _relational_source(one: ImportedDataset) -> Json:
    if one.uri is not None:
        return None
    return {
        "relationalPath": list(one.table_path[:-1]),
        "tableName": one.table_path[-1] if one.table_path else None,
        "raw": list(one.raw) or None,
    }


def is_seen(view: View, one: ImportedDataset) -> bool:
    """True for the owner, for administrators, and where a flow that one sees has the data."""
    if view.person.is_admin or one.creator_id == view.person.id:
        return True
    return not view.visible_flow_ids.isdisjoint(flow_ids_with(view.world, one.id))


IMPORTED_DATASET: Kind[ImportedDataset] = Kind(
    record=ImportedDataset,
    name="importedDataset",
    plural="importeddatasets",
    model="ImportedDataset",
    seen=is_seen,
    requests=(
        "ImportedDatasetCreateRequest",
        "ImportedDatasetUpdateRequest",
        "UpdateImportedDatasetRequest",
    ),
    references=(
        Reference(
            attribute="connection_id",
            target=Connection,
            shown="connection",
            sent="connectionId",
            on_delete=OnDelete.REFUSE,
        ),
    ),
    constants={"workspace": reference(WORKSPACE_ID), "fileConfigurations": None},
    computed={
        "parsingScript": lambda _, one: reference(one.id),
        "storageLocation": lambda _, one: storage_location(one),
        "relationalSource": lambda _, one: _relational_source(one),
        "runParameters": lambda _, one: {"data": list(one.run_parameters)},
        "type": lambda _, one: type_of(one),
        "isSchematized": lambda _, one: is_schematized(one),
        "raw": lambda _, one: list(one.raw) or None,
        "jdbcPath": lambda _, one: list(one.table_path[:-1]) or None,
        "jdbcTable": lambda _, one: one.table_path[-1] if one.table_path else None,
    },
    # The address in its many forms is put together by the handlers; the rest tells of the editor.
    unkept=frozenset(
        {
            *("uri", "path", "bucket", "host", "userinfo", "bucketName", "raw", "query"),
            *("jdbcTable", "jdbcPath", "jdbcType", "tableName", "relationalPath", "columns"),
            *("id", "type", "jobStatus", "jobgroupId", "visible", "isPending", "numFlows", "size"),
        }
    ),
)


DATASET_NODE: Kind[DatasetNode] = Kind(
    record=DatasetNode,
    name="flowNode",
    plural="datasetnodes",
    model="ParsingNode",
    references=(
        Reference(attribute="flow_id", target=Flow, shown="flow"),
        Reference(attribute="dataset_id", target=ImportedDataset, shown="importedDataset"),
    ),
    home="flow_id",
    constants={"activeSample": None, "wrangled": False},
    computed={"recipe": lambda _, one: reference(one.dataset_id)},
    also_shown=("createdAt", "updatedAt", "creator", "updater"),
)


def data_source(view: View, one: ImportedDataset) -> dict[str, Json]:
    """Return a dataset as the copy of one is answered."""
    del view
    return {
        **stamps(one),
        "name": one.name,
        "dynamicPath": one.dynamic_path,
        "isSchematized": is_schematized(one),
        "isDynamic": one.is_dynamic,
        "isConverted": one.is_converted,
        "disableTypeInference": one.disable_type_inference,
        "hasStructuring": is_schematized(one),
        "hasSchemaErrors": False,
        "parsingScript": reference(one.id),
        "storageLocation": storage_location(one),
        "connection": reference(one.connection_id),
        "workspace": reference(WORKSPACE_ID),
    }


DATA_SOURCES = Resource(
    plural="datasources",
    render=data_source,
    columns=NAMED,
    associations={
        **OWN,
        "connection": Association(
            key="connection",
            target="connections",
            find=lambda view, one: view.world.connections.get(
                one.connection_id or 0, with_deleted=True
            ),
        ),
    },
)
