"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.showing.rendering import Resource
from monitor.sandbox.http.webhooks.webhook_shapes import WEBHOOK_RESOURCES

KINDS: tuple[Kind[Any], ...] = ()

RESOURCES: dict[str, Resource] = {
    **WEBHOOK_RESOURCES,
}
