"""Samples of the operations on connections, datasets and recipes."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import Connection, ImportedDataset, Recipe
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Add a connection and a dataset that nothing uses."""
    living.create(
        Connection,
        name="unused",
        uuid="00000000-0000-4000-8000-0000000000d1",
        vendor="postgres",
        vendor_name="PostgreSQL",
        credentials=({"username": "reader", "password": "secret"},),
    )
    living.create(ImportedDataset, name="unused.csv", uri="gs://in/unused.csv")


def _newest(kind: type[Connection | ImportedDataset]) -> Sample:
    return Sample(path=lambda living: (living.newest(kind).id,))


def _in_stock(living: Living) -> object:
    return {"flow": {"id": living.things.stock.id}}


def _input(living: Living) -> object:
    return {"importedDataset": {"id": living.newest(ImportedDataset).id}}


CONNECTOR = Sample(path=lambda _: ("postgres",))

SAMPLES: dict[str, Sample] = {
    "createConnection": Sample(
        body=lambda _: {
            "name": "made",
            "vendor": "postgres",
            "vendorName": "PostgreSQL",
            "type": "jdbc",
            "credentialType": "basic",
            "host": "db.example.com",
            "port": 5432,
            "params": {"database": "orders"},
            "credentials": [{"username": "reader", "password": "secret"}],
        }
    ),
    "listConnections": Sample(),
    "countConnections": Sample(),
    "getConnection": Sample(path=of(Connection)),
    "getConnectionStatus": Sample(path=of(Connection)),
    "deleteConnection": _newest(Connection),
    "getConnectorConfig": CONNECTOR,
    "getConnectorDefaults": CONNECTOR,
    "getConnectorOverrides": CONNECTOR,
    "deleteConnectorOverrides": CONNECTOR,
    "updateConnectorOverrides": Sample(
        path=CONNECTOR.path, body=lambda _: {"runtimeMetadata": {"limit": {"clause": "FETCH"}}}
    ),
    "createImportedDataset": Sample(body=lambda _: {"uri": "gs://in/new.csv", "name": "new"}),
    "getImportedDataset": Sample(path=of(ImportedDataset)),
    "updateImportedDataset": Sample(path=of(ImportedDataset), body=lambda _: {"name": "put"}),
    "patchImportedDataset": Sample(path=of(ImportedDataset), body=lambda _: {"name": "patched"}),
    "deleteImportedDataset": _newest(ImportedDataset),
    "addImportedDatasetToFlow": Sample(
        path=of(ImportedDataset), body=lambda living: {"flow": {"id": living.things.orders.id}}
    ),
    "copyDataSource": Sample(path=of(ImportedDataset), body=lambda _: {"name": "copied"}),
    "asyncRefreshSchema": Sample(path=of(ImportedDataset), body=lambda _: {}),
    "listDatasetLibrary": Sample(query={"datasetsFilter": "all", "ownershipFilter": "all"}),
    "countDatasetLibrary": Sample(query={"datasetsFilter": "all"}),
    "createWrangledDataset": Sample(
        body=lambda living: {
            "flow": {"id": living.things.orders.id},
            "name": "made",
            "importedDataset": {"id": living.first(ImportedDataset).id},
        }
    ),
    "listWrangledDatasets": Sample(),
    "countWrangledDatasets": Sample(),
    "getWrangledDataset": Sample(path=of(Recipe)),
    "patchWrangledDataset": Sample(path=of(Recipe), body=lambda _: {"name": "renamed"}),
    "deleteWrangledDataset": Sample(path=of(Recipe)),
    "addWrangledDatasetToFlow": Sample(path=of(Recipe), body=_in_stock, as_admin=True),
    "getInputDataset": Sample(path=of(Recipe)),
    "updateInputDataset": Sample(path=of(Recipe), body=_input),
}
