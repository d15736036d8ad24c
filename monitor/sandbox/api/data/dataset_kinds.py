"""Imported datasets, and the places that they have in flows."""

from __future__ import annotations

from urllib.parse import urlsplit

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    OnDelete,
    Reference,
    Resource,
    View,
    named,
)
from monitor.sandbox.api.response.rendering import NAMED, OWN, kept, reference, stamps
from monitor.sandbox.world.lineage import flow_ids_with
from monitor.sandbox.world.records.objects import Connection, Flow, ImportedDataset
from monitor.sandbox.world.records.parts import DatasetNode
from monitor.sandbox.world.shelves import WORKSPACE_ID

# Files whose columns are known by their form.
FILES_WITH_COLUMNS = (".csv", ".tsv", ".json", ".avro", ".parquet", ".xlsx", ".xls")


def is_schematized(imported_dataset: ImportedDataset) -> bool:
    """True where the columns are known: tables, queries and files of a form that has them."""
    if imported_dataset.connection_id is not None:
        return True
    return (
        (imported_dataset.uri or imported_dataset.dynamic_path or "")
        .lower()
        .endswith(FILES_WITH_COLUMNS)
    )


def type_of(imported_dataset: ImportedDataset) -> str:
    """Return where the data lies: ``jdbc``, or the scheme of the file's address."""
    if imported_dataset.connection_id is not None and imported_dataset.uri is None:
        return "jdbc"
    return urlsplit(imported_dataset.uri or "").scheme or "file"


def storage_location(imported_dataset: ImportedDataset) -> Json:
    """Return where the file lies; None for what is no file."""
    if imported_dataset.uri is None:
        return None
    address = urlsplit(imported_dataset.uri)
    return {
        "fullUri": imported_dataset.uri,
        "type": type_of(imported_dataset),
        "container": address.netloc or None,
        "path": address.path,
    }


def _relational_source(imported_dataset: ImportedDataset) -> Json:
    if imported_dataset.uri is not None:
        return None
    return {
        "relationalPath": list(imported_dataset.table_path[:-1]),
        "tableName": imported_dataset.table_path[-1] if imported_dataset.table_path else None,
        "raw": list(imported_dataset.raw) or None,
    }


def is_visible(view: View, imported_dataset: ImportedDataset) -> bool:
    """True for the owner, for administrators, and where a flow that one sees has the data."""
    if view.person.is_admin or imported_dataset.creator_id == view.person.id:
        return True
    return not view.visible_flow_ids.isdisjoint(flow_ids_with(view.world, imported_dataset.id))


IMPORTED_DATASET: Kind[ImportedDataset] = Kind(
    record=ImportedDataset,
    is_visible_to=is_visible,
    requests=(
        "ImportedDatasetCreateRequest",
        "ImportedDatasetUpdateRequest",
        "UpdateImportedDatasetRequest",
    ),
    references=(
        Reference(
            "connection_id",
            Connection,
            shown="connection",
            sent="connectionId",
            on_delete=OnDelete.REFUSE,
        ),
    ),
    constants={"workspace": reference(WORKSPACE_ID), "fileConfigurations": None},
    computed={
        "parsingScript": lambda _, record: reference(record.id),
        "parsingRecipe": lambda _, record: reference(record.id),
        "storageLocation": lambda _, record: storage_location(record),
        "relationalSource": lambda _, record: _relational_source(record),
        "runParameters": lambda _, record: {"data": list(record.run_parameters)},
        "type": lambda _, record: type_of(record),
        "isSchematized": lambda _, record: is_schematized(record),
        "raw": lambda _, record: list(record.raw) or None,
        "jdbcPath": lambda _, record: list(record.table_path[:-1]) or None,
        "jdbcTable": lambda _, record: record.table_path[-1] if record.table_path else None,
    },
    # The address in its many forms is put together by the handlers; the rest is the editor's.
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
        Reference("flow_id", Flow, shown="flow"),
        Reference("dataset_id", ImportedDataset, shown="importedDataset"),
    ),
    home="flow_id",
    constants={"activeSample": None, "wrangled": False},
    computed={"recipe": lambda _, record: reference(record.dataset_id)},
    also_shown=("createdAt", "updatedAt", "creator", "updater"),
)


def data_source(view: View, imported_dataset: ImportedDataset) -> dict[str, Json]:
    """Return a dataset as the copy of one is answered."""
    del view
    return {
        **stamps(imported_dataset),
        **kept(imported_dataset, "name", "dynamicPath", "isDynamic", "isConverted"),
        **kept(imported_dataset, "disableTypeInference"),
        "isSchematized": is_schematized(imported_dataset),
        "hasStructuring": is_schematized(imported_dataset),
        "hasSchemaErrors": False,
        "parsingScript": reference(imported_dataset.id),
        "storageLocation": storage_location(imported_dataset),
        "connection": reference(imported_dataset.connection_id),
        "workspace": reference(WORKSPACE_ID),
    }


DATA_SOURCES = Resource(
    plural="datasources",
    render=data_source,
    columns=NAMED,
    associations=named(
        *OWN,
        Association(
            "connection",
            lambda view, record: view.world.connections.get(
                record.connection_id or 0, with_deleted=True
            ),
            target="connections",
        ),
    ),
)
