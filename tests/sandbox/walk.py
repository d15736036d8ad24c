"""The walk over every pair of operation and edition; each pair is called in a new world."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass

import pypdf

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.models.models import (
    JSON_TYPE,
    PDF_TYPE,
    ZIP_TYPE,
    media_type_of,
    response_of,
    status_of,
)
from tests.sandbox.fitting import faults
from tests.sandbox.http_workspace import Answer
from tests.sandbox.samples.table import SAMPLES, call, open_living


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one pair answered. ``faults`` name what contradicts the catalogue and the models."""

    operation: Operation
    edition: Edition
    status: int
    faults: tuple[str, ...]

    @property
    def is_served(self) -> bool:
        """True where the edition did what the operation is for."""
        return self.status < 300 and not self.faults


_FOUND: dict[Edition, tuple[Finding, ...]] = {}


async def walked(edition: Edition) -> tuple[Finding, ...]:
    """Return what every operation answers in an edition.

    A second walk through the same edition would find the same, and is spared.
    """
    if edition not in _FOUND:
        _FOUND[edition] = tuple([await check(operation, edition) for operation in operations()])
    return _FOUND[edition]


async def check(operation: Operation, edition: Edition) -> Finding:
    """Call an operation in a new world and check the answer."""
    async with open_living(edition) as living:
        if operation.is_part_of(edition):
            answer = await call(living, operation, SAMPLES[operation.operation_id])
            found = success_faults(operation, answer)
        else:
            path = operation.fill(*["1"] * len(operation.parameters))
            answer = await living.workspace.request(operation.method, path, body={})
            found = refusal_faults(operation, path, answer)
    return Finding(
        operation=operation,
        edition=edition,
        status=answer.status,
        faults=tuple(f"{operation.operation_id}: {success_fault}" for success_fault in found),
    )


def refusal_faults(operation: Operation, path: str, answer: Answer) -> list[str]:
    """Return what is wrong with the answer of an edition that lacks an operation."""
    details = f"Cannot {operation.method} {path}"
    if answer.status == 404 and answer.exception["details"] == details:
        name = answer.exception["name"]
        return [] if name == "RouteNotFoundException" else [name]
    return [f"{answer.status} {answer.content[:300]!r}"]


def success_faults(operation: Operation, answer: Answer) -> list[str]:
    """Return what is wrong with an answer that should be a success."""
    if answer.status != status_of(operation):
        return [f"{answer.status} {answer.content[:300]!r}"]
    if "x-trifacta-request-id" not in answer.headers:
        return ["no request id"]
    media_type, content_type = media_type_of(operation), answer.headers.get("Content-Type", "")
    if media_type is None:
        return ["a body where none is described"] if answer.content else []
    if content_type.partition(";")[0] != media_type:
        return [f"{content_type} instead of {media_type}"]
    return content_faults(operation, answer, media_type)


def content_faults(operation: Operation, answer: Answer, media_type: str) -> list[str]:
    """Return what is wrong with the body of an answer of a type."""
    kind = response_of(operation)
    if media_type == JSON_TYPE and kind is not None:
        found = faults(answer.body, kind, "answer")
        is_list = kind.endswith("List") and operation.method == "GET"
        return found or (["no rows"] if is_list and not answer.body["data"] else [])
    if media_type == PDF_TYPE:
        pages = len(pypdf.PdfReader(io.BytesIO(answer.content)).pages)
        return [] if pages == 1 else [f"{pages} pages"]
    if media_type == ZIP_TYPE:
        with zipfile.ZipFile(io.BytesIO(answer.content)) as package:
            return [] if package.testzip() is None else ["a broken ZIP"]
    return []
