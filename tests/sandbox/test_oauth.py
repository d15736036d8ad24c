"""The token endpoint over HTTP: refresh tokens rotate, access tokens end, pairs are revoked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.sandbox.world.faults import parse_faults
from monitor.sandbox.world.records.objects import TokenPair
from tests.clocks import ManualClock

OAUTH = OAuthSettings(access_token_seconds=60, refresh_token_seconds=3_600)
SETTINGS = SandboxSettings(traffic=None, schedules_fire=False, oauth=OAUTH)


@dataclass(frozen=True, kw_only=True)
class TokenAnswer:
    """What the token endpoint has answered."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def tokens(self) -> tuple[str, str]:
        """Access and refresh token of a success."""
        assert self.status == 200, self.body
        return self.body["access_token"], self.body["refresh_token"]

    def is_refused(self, error: str, *mentions: str) -> bool:
        """True for an error of RFC 6749 whose description has these words."""
        assert (self.status, self.body["error"]) == (400, error), self.body
        return all(word in self.body["error_description"] for word in mentions)


@dataclass(kw_only=True)
class Caller:
    """A program that holds a pair of the sandbox."""

    sandbox: Sandbox
    clock: ManualClock
    session: aiohttp.ClientSession

    @property
    def pair(self) -> TokenPair:
        assert self.sandbox.pair is not None
        return self.sandbox.pair

    async def post(self, path: str, form: Any = None, **headers: str) -> TokenAnswer:
        async with self.session.post(path, data=form, headers=headers) as response:
            content = await response.read()
            body = msgspec.json.decode(content) if content else {}
            return TokenAnswer(status=response.status, headers=response.headers, body=body)

    async def refresh(self, refresh_token: str | None, **changes: str | None) -> TokenAnswer:
        """Send a good refresh with these ``changes``; None leaves a field out."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "client_id": self.pair.client_id,
            **changes,
        }
        return await self.post(
            "/as/token", {name: text for name, text in form.items() if text is not None}
        )

    async def status(self, access_token: str) -> int:
        """Return what a read of /v4 answers to an access token."""
        headers = {"Authorization": f"Bearer {access_token}"}
        async with self.session.get("/v4/flows", headers=headers) as response:
            if response.status == 401:
                body = await response.json()
                assert body["exception"]["name"] == "UnauthorizedException"
            return response.status


@contextlib.asynccontextmanager
async def calling(
    settings: SandboxSettings = SETTINGS, *faults: str, secret: str | None = None
) -> AsyncIterator[Caller]:
    """Serve a sandbox with pairs under a clock that the test moves."""
    if secret is not None:
        oauth = msgspec.structs.replace(OAUTH, client_secret=secret)
        settings = msgspec.structs.replace(settings, oauth=oauth)
    clock = ManualClock()
    sandbox = Sandbox(msgspec.structs.replace(settings, options=parse_faults(faults)), clock)
    url = await sandbox.start()
    try:
        async with aiohttp.ClientSession(url) as session:
            yield Caller(sandbox=sandbox, clock=clock, session=session)
    finally:
        await sandbox.stop()


async def test_a_refresh_gives_a_new_pair_and_ends_the_old_refresh_token() -> None:
    """All fields of the answer are there; the used token is refused from the next request on."""
    async with calling() as caller:
        first = caller.pair.refresh_token
        answer = await caller.refresh(first)
        access, second = answer.tokens
        assert answer.body == {
            "access_token": access,
            "refresh_token": second,
            "token_type": "Bearer",
            "expires_in": 60,
            "scope": "workspace",
        }
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Type"] == "application/json"
        assert second != first
        assert (await caller.refresh(first)).is_refused("invalid_grant", "used before")
        assert (await caller.refresh(second)).tokens
        assert await caller.status(access) == 200


async def test_an_access_token_lives_as_long_as_its_answer_said() -> None:
    """Each one is 401 from its own end on, whether or not the pair was refreshed before."""
    async with calling() as caller:
        assert await caller.status(caller.sandbox.token) == 200
        await caller.clock.advance(30)
        access, refresh = (await caller.refresh(caller.pair.refresh_token)).tokens
        assert await caller.status(caller.sandbox.token) == 200
        await caller.clock.advance(30)
        assert await caller.status(caller.sandbox.token) == 401
        assert await caller.status(access) == 200
        await caller.clock.advance(30)
        assert await caller.status(access) == 401
        access, _ = (await caller.refresh(refresh)).tokens
        assert await caller.status(access) == 200


async def test_a_pair_ends_however_often_it_is_refreshed() -> None:
    """No refresh moves the end of the refresh token; after it a person has to act."""
    async with calling() as caller:
        refresh = caller.pair.refresh_token
        for _ in range(59):
            await caller.clock.advance(60)
            _, refresh = (await caller.refresh(refresh)).tokens
        await caller.clock.advance(60)
        assert (await caller.refresh(refresh)).is_refused("invalid_grant", "expired")
        assert len(caller.sandbox.world.tokens.having("pair_id", caller.pair.id)) <= 2


async def test_only_access_tokens_of_pairs_are_accepted() -> None:
    """No token of another kind opens /v4, and none can be made; without OAuth all is as ever."""
    async with calling() as caller:
        plain = Sandbox(msgspec.structs.replace(SETTINGS, oauth=None), caller.clock)
        for token in (plain.token, caller.pair.refresh_token, ""):
            assert await caller.status(token) == 401
        refused = await caller.post(
            "/v4/apiAccessTokens",
            b'{"lifetimeSeconds": 60}',
            **{
                "Authorization": f"Bearer {caller.sandbox.token}",
                "Content-Type": "application/json",
            },
        )
        assert (refused.status, refused.body["exception"]["name"]) == (
            404,
            "RouteNotFoundException",
        )
    async with calling(msgspec.structs.replace(SETTINGS, oauth=None)) as caller:
        assert await caller.status(caller.sandbox.token) == 200
        answer = await caller.post("/as/token", {"grant_type": "refresh_token"})
        assert (answer.status, answer.body["exception"]["name"]) == (404, "RouteNotFoundException")


@pytest.mark.parametrize(
    ("changes", "error", "mentioned"),
    [
        ({"grant_type": None}, "invalid_request", "grant_type"),
        ({"grant_type": ""}, "invalid_request", "grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type", "refresh_token"),
        ({"refresh_token": None}, "invalid_request", "refresh_token"),
        ({"refresh_token": "made-up"}, "invalid_grant", "unknown"),
        ({"client_id": None}, "invalid_request", "client_id"),
        ({"client_id": "other"}, "invalid_client", "unknown"),
        ({"client_secret": "any"}, "invalid_client", "secret"),
        ({"scope": "workspace all"}, "invalid_scope", "workspace"),
    ],
)
async def test_a_refusal_is_that_of_the_protocol(
    changes: dict[str, str | None], error: str, mentioned: str
) -> None:
    """A wrong field is 400 with its error, and the refresh token lives on."""
    async with calling() as caller:
        token = changes.pop("refresh_token", caller.pair.refresh_token)
        answer = await caller.refresh(token, **changes)
        assert answer.is_refused(error, mentioned)
        assert (await caller.refresh(caller.pair.refresh_token, scope="workspace")).tokens


async def test_a_body_that_is_no_form_is_an_invalid_request() -> None:
    """JSON, a repeated parameter and bytes that are no text are refused in the same way."""
    async with calling() as caller:
        for body, kind in (
            (b'{"grant_type": "refresh_token"}', "application/json"),
            (b"client_id=a&client_id=b", "application/x-www-form-urlencoded"),
            (b"grant_type=%ff\xff", "application/x-www-form-urlencoded"),
        ):
            answer = await caller.post("/as/token", body, **{"Content-Type": kind})
            assert answer.body["error"] in {"invalid_request", "unsupported_grant_type"}


async def test_a_client_with_a_secret_must_send_it() -> None:
    """Without the secret, or with another, a refresh is refused and changes nothing."""
    async with calling(secret="s3cret") as caller:
        token = caller.pair.refresh_token
        assert (await caller.refresh(token)).is_refused("invalid_client")
        assert (await caller.refresh(token, client_secret="other")).is_refused("invalid_client")
        assert (await caller.refresh(token, client_secret="s3cret")).tokens


@pytest.mark.parametrize("kind", ["access", "refresh", "used"])
async def test_revocation_ends_the_whole_pair_at_once(kind: str) -> None:
    """Whichever of its tokens is revoked, refreshes and requests are refused from then on."""
    async with calling() as caller:
        used = caller.pair.refresh_token
        access, refresh = (await caller.refresh(used)).tokens
        form = {"client_id": caller.pair.client_id}
        token = {"access": access, "refresh": refresh, "used": used}[kind]
        assert (await caller.post("/as/revoke", {**form, "token": "unknown"})).status == 200
        assert await caller.status(access) == 200
        assert (await caller.post("/as/revoke", {**form, "token": token})).status == 200
        assert await caller.status(access) == 401
        assert (await caller.refresh(refresh)).is_refused("invalid_grant", "revoked")


async def test_the_pair_of_a_disabled_person_is_refused() -> None:
    """A disabled account gets no access token, and none of it is accepted."""
    async with calling() as caller:
        owner = caller.sandbox.world.people.get(caller.pair.creator_id)
        assert owner is not None
        owner.is_disabled = True
        assert (await caller.refresh(caller.pair.refresh_token)).is_refused("invalid_grant")
        assert await caller.status(caller.sandbox.token) == 401


async def test_a_new_pair_is_generated_in_place_of_the_old_one() -> None:
    """A client that is locked out gets in with a new pair; what is left of the old one is dead."""
    async with calling() as caller:
        access, refresh = (await caller.refresh(caller.pair.refresh_token)).tokens
        made = (await caller.post("/sandbox/token-pair")).body
        assert made.keys() == {"client_id", "refresh_token"}
        assert await caller.status(access) == 401
        assert (await caller.refresh(refresh)).is_refused("invalid_grant")
        access, _ = (await caller.refresh(made["refresh_token"])).tokens
        assert await caller.status(access) == 200
        again = (await caller.post("/sandbox/token-pair")).body
        assert again["refresh_token"] != made["refresh_token"]


async def test_a_lost_answer_has_ended_the_old_refresh_token() -> None:
    """The refresh is done, the connection is cut, and the pair is lost to its program."""
    async with calling(SETTINGS, "token_answer_lost=1") as caller:
        with pytest.raises(aiohttp.ClientError):
            await caller.refresh(caller.pair.refresh_token)
        caller.sandbox.world.options.token_answer_lost = 0.0
        assert caller.pair.refreshes == 1
        used = caller.pair.used_tokens[0]
        assert (await caller.refresh(used)).is_refused("invalid_grant", "used before")


async def test_a_slow_refresh_is_done_at_once() -> None:
    """A client that stops waiting for the answer has lost the pair."""
    async with calling(SETTINGS, "token_answer_latency=45") as caller:
        first = caller.pair.refresh_token
        waiting = asyncio.create_task(caller.refresh(first))
        async with asyncio.timeout(10):
            while caller.pair.refreshes == 0:
                await caller.status("none")  # one turn of the network
        await caller.clock.advance(44)
        assert not waiting.done()
        await caller.clock.advance(1)
        assert (await waiting).tokens[1] == caller.pair.refresh_token != first


@pytest.mark.parametrize(("fault", "status"), [("token_refused", 400), ("token_status_503", 503)])
async def test_a_refused_refresh_is_not_done(fault: str, status: int) -> None:
    """After a refusal by chance the same refresh token still works."""
    async with calling() as caller:
        setattr(caller.sandbox.world.options, fault, 1.0)
        form = {
            "grant_type": "refresh_token",
            "refresh_token": caller.pair.refresh_token,
            "client_id": caller.pair.client_id,
        }
        async with caller.session.post("/as/token", data=form) as response:
            assert response.status == status
            if status == 400:
                assert (await response.json())["error"] == "invalid_grant"
        setattr(caller.sandbox.world.options, fault, 0.0)
        assert (await caller.refresh(caller.pair.refresh_token)).tokens


async def test_a_reused_refresh_token_may_revoke_the_pair() -> None:
    """With the fault, two programs with one pair, or a repeated refresh, lose it altogether."""
    async with calling(SETTINGS, "token_reuse_revokes") as caller:
        first = caller.pair.refresh_token
        access, second = (await caller.refresh(first)).tokens
        assert (await caller.refresh(first)).is_refused("invalid_grant")
        assert (await caller.refresh(second)).is_refused("invalid_grant", "revoked")
        assert await caller.status(access) == 401


async def outcomes(*, seed: int) -> list[tuple[str, str] | str]:
    """Return what a row of refreshes gave: tokens or an error."""
    settings = msgspec.structs.replace(SETTINGS, seed=seed)
    found: list[tuple[str, str] | str] = []
    async with calling(settings, "token_refused=0.3,token_answer_lost=0.3") as caller:
        for _ in range(12):
            try:
                answer = await caller.refresh(caller.pair.refresh_token)
            except aiohttp.ClientError:
                found.append("lost")
                continue
            found.append(answer.tokens if answer.status == 200 else answer.body["error"])
    return found


async def test_the_seed_decides_tokens_and_faults() -> None:
    """Two sandboxes of one seed give the same tokens and the same faults; another seed others."""
    first = await outcomes(seed=1)
    assert {"lost", "invalid_grant"} < set(first)
    assert first == await outcomes(seed=1)
    assert first != await outcomes(seed=2)


@pytest.mark.parametrize("edition", list(Edition))
async def test_every_edition_has_pairs_if_they_are_on(edition: Edition) -> None:
    """The endpoint depends on the setting, not on the edition."""
    async with calling(msgspec.structs.replace(SETTINGS, edition=edition)) as caller:
        access, _ = (await caller.refresh(caller.pair.refresh_token)).tokens
        assert await caller.status(access) in {200, 404}
        assert caller.sandbox.token_url == f"{caller.sandbox.url}/as/token"
