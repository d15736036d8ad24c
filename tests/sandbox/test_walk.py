"""Every pair of operation and edition behaves as the catalogue says, over HTTP."""

from __future__ import annotations

import io
import zipfile

import pypdf
import pytest

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.http.outcomes import (
    JSON_TYPE,
    PDF_TYPE,
    ZIP_TYPE,
    media_type_of,
    status_of,
)
from monitor.sandbox.http.registry import HANDLERS
from monitor.sandbox.http.showing.models import response_of
from tests.sandbox.fitting import faults
from tests.sandbox.http_workspace import Answer
from tests.sandbox.samples.table import SAMPLES, ask, open_living


def wrongs(operation: Operation, answer: Answer) -> list[str]:
    """Return what is wrong with an answer that should be a success."""
    name = operation.operation_id
    if answer.status != status_of(operation):
        return [f"{name}: {answer.status} {answer.content[:300]!r}"]
    if "x-trifacta-request-id" not in answer.headers:
        return [f"{name}: no request id"]
    media_type, content_type = media_type_of(operation), answer.headers.get("Content-Type", "")
    if media_type is None:
        return [f"{name}: a body where none is told"] if answer.content else []
    if content_type.partition(";")[0] != media_type:
        return [f"{name}: {content_type} instead of {media_type}"]
    return content_faults(operation, answer, media_type)


def content_faults(operation: Operation, answer: Answer, media_type: str) -> list[str]:
    """Return what is wrong with the body of an answer of a type."""
    name, kind = operation.operation_id, response_of(operation)
    if media_type == JSON_TYPE and kind is not None:
        found = faults(answer.body, kind, name)
        is_empty = kind.endswith("List") and operation.method == "GET" and not answer.body["data"]
        return [*found, f"{name}: the sample has no rows"] if is_empty and not found else found
    if media_type == PDF_TYPE:
        pages = len(pypdf.PdfReader(io.BytesIO(answer.content)).pages)
        return [] if pages == 1 else [f"{name}: {pages} pages"]
    if media_type == ZIP_TYPE:
        with zipfile.ZipFile(io.BytesIO(answer.content)) as package:
            return [] if package.testzip() is None else [f"{name}: a broken ZIP"]
    return []


async def judge(operation: Operation, edition: Edition) -> list[str]:
    """Return what is wrong with an operation in an edition, each time in a new world."""
    async with open_living(edition) as living:
        if operation.is_offered_in(edition):
            answer = await ask(living, operation, SAMPLES[operation.operation_id])
            return wrongs(operation, answer)
        path = operation.fill(*["1"] * len(operation.parameters))
        refusal = await living.workspace.ask(operation.method, path, body={})
        if refusal.is_refused(404, "RouteNotFoundException", f"Cannot {operation.method} {path}"):
            return []
        return [f"{operation.operation_id}: {refusal.content!r}"]


@pytest.mark.parametrize("edition", list(Edition))
async def test_an_edition_offers_what_is_its_own(edition: Edition) -> None:
    """What is offered succeeds as described; what is not is a route that does not exist."""
    walked = [
        one for one in operations() if one.operation_id in SAMPLES or not one.is_offered_in(edition)
    ]
    found = [fault for one in walked for fault in await judge(one, edition)]

    assert not found, "\n".join(found)


def test_every_operation_has_a_sample() -> None:
    """Nothing has a sample that is not served."""
    assert SAMPLES.keys() <= HANDLERS.keys()
