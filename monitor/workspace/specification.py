"""Reads the operations of a served OpenAPI document. A hint of the edition, never proof."""

from __future__ import annotations

import functools
import re

import msgspec

from monitor.catalogue.operations import operations
from monitor.workspace import wire
from monitor.workspace.decoding import read_as

_METHODS = frozenset({"get", "post", "put", "patch", "delete", "head", "options"})
_PARAMETER = re.compile(r"\{([^{}]*)\}|:(\w+)")
_DOCUMENT = msgspec.json.Decoder(wire.Specification)
_ROOT = "/v4"


def operations_in(document: bytes) -> frozenset[tuple[str, str]]:
    """Return method and path of every operation, paths as the catalogue spells them.

    Documents write parameters as ``{id}`` or ``:id`` and name them as they like; paths may leave
    out the root that the server entry names. An operation that the catalogue does not have keeps
    the document's own names.

    Raises:
        PayloadError: it is not an OpenAPI document.
    """
    specification = read_as(_DOCUMENT, document)
    root = _root_of(specification)
    return frozenset(
        (method.upper(), _known_path(method.upper(), _with_root(path, root)))
        for path, methods in specification.paths.items()
        for method in methods
        if method.lower() in _METHODS
    )


def _root_of(specification: wire.Specification) -> str:
    for server in specification.servers or []:
        url = server.get("url")
        if isinstance(url, str) and url.rstrip("/").endswith(_ROOT):
            return _ROOT
    return ""


def _with_root(path: str, root: str) -> str:
    return path if path.startswith(f"{_ROOT}/") else root + path


def _known_path(method: str, path: str) -> str:
    known = _catalogue().get((method, _PARAMETER.sub(":", path)))
    if known is not None:
        return known
    return _PARAMETER.sub(lambda match: f":{match[1] or match[2] or ''}", path)


@functools.cache
def _catalogue() -> dict[tuple[str, str], str]:
    return {
        (operation.method, _PARAMETER.sub(":", operation.path)): operation.path
        for operation in operations()
    }
