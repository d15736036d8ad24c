"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.data import (
    connections,
    connector_metadata,
    dataset_library,
    imported_datasets,
    wrangled_datasets,
)

HANDLERS: Handlers = {
    **connections.HANDLERS,
    **connector_metadata.HANDLERS,
    **dataset_library.HANDLERS,
    **imported_datasets.HANDLERS,
    **wrangled_datasets.HANDLERS,
}
