"""Answers that are not the API's: pages of a proxy, which prove nothing."""

from __future__ import annotations

import pytest
from aiohttp import web

from monitor.model.errors import UnauthorizedError, WorkspaceError, WorkspaceUnreachableError
from monitor.workspace.client import Priority
from tests.workspace.scripted import Handler, answer, client_of, serving

_PAGE = b"<!DOCTYPE html><html>sign in</html>"


def page(status: int, body: bytes = _PAGE, content_type: str = "text/html") -> Handler:
    """Return a handler that answers as a proxy in front of the workspace does."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type=content_type)

    return handle


FOREIGN = {
    "html_200": (page(200), "text/html"),
    "markup_named_json_200": (page(200, b" <html>", "application/json"), "application/json"),
    "cut_200": (page(200, b'{"data":[{"id":1},', "application/json"), "no whole JSON"),
    "empty_200": (page(200, b""), "an empty body"),
    "empty_json_200": (page(200, b"", "application/json"), "an empty body, no whole JSON"),
    "redirect_302": (answer(None, 302, {"Location": "/login"}), "it redirects elsewhere"),
    "html_400": (page(400), "text/html"),
    "html_403": (page(403), "text/html"),
    "json_403": (answer({"error": "forbidden"}, 403), "application/json"),
    "html_404": (page(404), "text/html"),
    "json_404": (answer({"message": "no backend"}, 404), "application/json"),
    "html_410": (page(410), "text/html"),
    "html_503": (page(503), "text/html"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize(("operation_id", "values"), [("getJobGroup", (7,)), ("listFlows", ())])
async def test_a_page_in_the_place_of_an_answer_is_an_outage(
    name: str, operation_id: str, values: tuple[int, ...]
) -> None:
    """One clear sentence, nothing proven: neither a missing operation nor a missing object."""
    handler, words = FOREIGN[name]
    async with serving(handler) as workspace, client_of(workspace.url, retries=0) as client:
        with pytest.raises(WorkspaceUnreachableError) as caught:
            await client.requester.request(operation_id, *values, priority=Priority.CHANGES)
        assert client.requester.unavailable == client.requester.answered == frozenset()

    status = int(name.rpartition("_")[2])
    assert str(caught.value).startswith(f"{operation_id} answered {status}, but not as the API: ")
    assert words in str(caught.value)
    assert "sign in" not in str(caught.value)
    assert (caught.value.status_code, caught.value.operation_id) == (status, operation_id)


@pytest.mark.parametrize("name", ["html_200", "html_404", "redirect_302"])
async def test_a_page_is_not_requested_again_at_once(name: str) -> None:
    """It lasts for minutes: retries would only multiply the requests."""
    async with serving(FOREIGN[name][0]) as workspace, client_of(workspace.url) as client:
        with pytest.raises(WorkspaceUnreachableError):
            await client.requester.request("listFlows", priority=Priority.CHANGES)

    assert len(workspace.requests) == 1


async def test_a_token_that_a_proxy_refuses_is_a_refused_token() -> None:
    """A 401 with a page still renews a token, as the gateway may be what refuses it."""
    async with serving(page(401)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(UnauthorizedError):
            await client.requester.request("listFlows", priority=Priority.CHANGES)


@pytest.mark.parametrize(
    ("operation_id", "body"),
    [
        ("listFlows", {"status": "maintenance"}),
        ("getCurrentPerson", {"message": "back soon"}),
        ("getOpenApiSpec", {"status": "UP"}),
    ],
)
async def test_json_of_another_shape_proves_no_operation(
    operation_id: str, body: dict[str, str]
) -> None:
    """A gateway may speak JSON: what it says of itself is no answer of the operation."""
    async with serving(answer(body)) as workspace, client_of(workspace.url) as client:
        await client.requester.request(operation_id, priority=Priority.CHANGES)
        assert client.requester.answered == frozenset()


async def test_a_refusal_in_the_envelope_is_the_own_one_of_the_api() -> None:
    """Also where it has no name."""
    own = answer({"exception": {"message": "no such thing"}}, 404)
    async with serving(own) as workspace, client_of(workspace.url) as client:
        with pytest.raises(WorkspaceError) as caught:
            await client.requester.request("getJobGroup", 7, priority=Priority.CHANGES)

    assert not isinstance(caught.value, WorkspaceUnreachableError)
