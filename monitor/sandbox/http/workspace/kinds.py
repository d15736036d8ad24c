"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind, Visibility
from monitor.sandbox.http.showing.rendering import Resource
from monitor.sandbox.records.functions import UserDefinedFunction

FUNCTION = Kind(
    record=UserDefinedFunction,
    name="userDefinedFunction",
    plural="userdefinedfunctions",
    model="UserDefinedFunction",
    visibility=Visibility.EVERYBODY,
)

KINDS: tuple[Kind[Any], ...] = (FUNCTION,)

RESOURCES: dict[str, Resource] = {}
