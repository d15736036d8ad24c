"""Access tokens: made once, used until they expire or are deleted, never shown again."""

from __future__ import annotations

import base64
from datetime import timedelta

import msgspec
import pytest

from monitor.catalogue.operations import Edition, operations
from monitor.sandbox.world.records.objects import Token
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Answer, open_workspace

TOKENS = "/v4/apiAccessTokens"
PATCHED = "/v4/workspaces/current/configuration"


async def test_a_token_is_made_as_recorded() -> None:
    """The value is shown once, the rest resembles the recorded answer, and a read repeats it."""
    async with open_workspace() as workspace:
        made = await workspace.post(
            TOKENS, {"lifetimeSeconds": 100, "description": "My 100-second token"}
        )
        info = made.body["tokenInfo"]
        read = await workspace.get(f"{TOKENS}/{info['tokenId']}")

    assert made.status == 201
    assert info == {
        "tokenId": info["tokenId"],
        "description": "My 100-second token",
        "expiredAt": "2026-11-21T10:01:40.000Z",
        "lastUsed": None,
        "createdAt": "2026-11-21T10:00:00.000Z",
    }
    inside = msgspec.json.decode(base64.b64decode(made.body["tokenValue"]))
    assert inside.keys() == {"tokenId", "secret"}
    assert inside["tokenId"] == info["tokenId"]
    assert read.body == info


async def test_a_token_is_refused_from_the_second_on_at_which_it_expires() -> None:
    """It is its creator's until then, and 401 afterwards, while it stays in the list."""
    async with open_workspace() as workspace:
        made = await workspace.post(TOKENS, {"lifetimeSeconds": 60})
        value = made.body["tokenValue"]
        workspace.clock.set_wall(workspace.clock.now() + timedelta(seconds=59))
        before = await workspace.request("GET", "/v4/people/current", token=value)
        workspace.clock.set_wall(workspace.clock.now() + timedelta(seconds=1))
        after = await workspace.request("GET", "/v4/people/current", token=value)
        listed = await workspace.get(TOKENS)

    assert before.body["email"] == "owner@example.com"
    assert after.is_refused(401, "UnauthorizedException")
    shown = next(
        item for item in listed.body["data"] if item["tokenId"] == made.body["tokenInfo"]["tokenId"]
    )
    assert shown["lastUsed"] == "2026-11-21T10:00:59.000Z"


async def test_an_endless_token_does_not_expire() -> None:
    """A lifetime of -1 shows no end, and the token works years later."""
    async with open_workspace() as workspace:
        made = await workspace.post(TOKENS, {"lifetimeSeconds": -1})
        workspace.clock.set_wall(workspace.clock.now() + timedelta(days=3_650))
        later = await workspace.request("GET", "/v4/people/current", token=made.body["tokenValue"])

    assert made.body["tokenInfo"]["expiredAt"] is None
    assert later.status == 200


@pytest.mark.parametrize("lifetime", [0, -2, 10**12, "soon", 1.5, None, True, [60]])
async def test_a_value_that_is_no_lifetime_is_refused(lifetime: object) -> None:
    """Nothing is made, and the refusal names the field."""
    async with open_workspace() as workspace:
        count = len(workspace.world.tokens)
        answer = await workspace.post(TOKENS, {"lifetimeSeconds": lifetime})

        assert answer.is_refused(400, "ValidationFailed", "lifetimeSeconds")
        assert len(workspace.world.tokens) == count


async def test_deletion_cuts_access_at_once() -> None:
    """A deleted token is 401 in the next request, also one that deleted itself."""
    async with open_workspace() as workspace:
        other = await workspace.post(TOKENS, {"lifetimeSeconds": 600})
        path = f"{TOKENS}/{other.body['tokenInfo']['tokenId']}"
        value = other.body["tokenValue"]
        itself = await workspace.request("DELETE", path, token=value)
        cut = await workspace.request("GET", TOKENS, token=value)
        gone = await workspace.get(path)
        again = await workspace.request("DELETE", path)

    assert (itself.status, itself.content) == (204, b"")
    assert cut.is_refused(401, "UnauthorizedException")
    assert gone.is_refused(404, "DataNotFoundException")
    assert again.is_refused(404, "DataNotFoundException")


async def test_everybody_has_their_own_tokens_only() -> None:
    """Others' tokens are neither listed nor found, not even by an administrator."""
    async with open_workspace() as workspace:
        made = await workspace.post(TOKENS, {"lifetimeSeconds": 600})
        path = f"{TOKENS}/{made.body['tokenInfo']['tokenId']}"
        for token in (COLLEAGUE_TOKEN, ADMIN_TOKEN):
            listed = await workspace.request("GET", TOKENS, token=token)
            assert made.body["tokenInfo"] not in listed.body["data"]
            assert len(listed.body["data"]) == 1
            for method in ("GET", "DELETE"):
                answer = await workspace.request(method, path, token=token)
                assert answer.is_refused(404, "DataNotFoundException")


async def test_a_disabled_person_has_no_access() -> None:
    """No token of a disabled account is accepted, until it is enabled again."""
    async with open_workspace() as workspace:
        workspace.things.owner.is_disabled = True
        refused = await workspace.get(TOKENS)
        workspace.things.owner.is_disabled = False
        accepted = await workspace.get(TOKENS)

    assert refused.is_refused(401, "UnauthorizedException")
    assert accepted.status == 200


async def test_a_value_is_never_shown_again() -> None:
    """No read operation reveals the value of a token, whatever the query."""
    async with open_workspace(Edition.OPEN) as workspace:
        made = await workspace.post(TOKENS, {"lifetimeSeconds": 600})
        token_id = made.body["tokenInfo"]["tokenId"]
        answers: list[Answer] = [
            await workspace.get(operation.fill(*[token_id] * len(operation.parameters)))
            for operation in operations()
            if operation.method == "GET"
        ]

    secret = made.body["tokenValue"].encode()
    assert sum(answer.status == 200 for answer in answers) > 10
    assert not any(secret in answer.content for answer in answers)


async def test_the_workspace_may_limit_lifetimes() -> None:
    """Under a limit, longer tokens and endless ones are refused; earlier ones live on."""
    async with open_workspace() as workspace:
        setting = {"key": "apiAccessTokens.maximumLifetimeSeconds", "value": 100}
        await workspace.request(
            "PATCH", PATCHED, body={"configuration": [setting]}, token=ADMIN_TOKEN
        )
        answers = [
            await workspace.post(TOKENS, {"lifetimeSeconds": seconds}) for seconds in (100, 101, -1)
        ]

    assert [answer.status for answer in answers] == [201, 400, 400]
    assert all(
        answer.is_refused(400, "ValidationFailed", "lifetimeSeconds") for answer in answers[1:]
    )


async def test_switched_off_tokens_are_no_routes() -> None:
    """All four operations answer as unknown routes do, while tokens go on giving access."""
    async with open_workspace() as workspace:
        setting = {"key": "apiAccessTokens.enabled", "value": False}
        await workspace.request(
            "PATCH", PATCHED, body={"configuration": [setting]}, token=ADMIN_TOKEN
        )
        token_id = next(workspace.world.shelf(Token).live()).token_id
        for method, path in (
            ("POST", TOKENS),
            ("GET", TOKENS),
            ("GET", f"{TOKENS}/{token_id}"),
            ("DELETE", f"{TOKENS}/{token_id}"),
        ):
            body = {"lifetimeSeconds": 60} if method == "POST" else None
            answer = await workspace.request(method, path, body=body)
            assert answer.is_refused(404, "RouteNotFoundException", f"Cannot {method} {path}")
        person = await workspace.get("/v4/people/current")

    assert person.status == 200
