"""Logging in at an OpenID provider: authorization code with PKCE.

The libraries speak to the provider; they block, so each step runs in a thread, within its time
limits. An answer of the provider is believed as far as its signature goes.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.errors import MonitorError
from monitor.model.outside import harmless
from monitor.web.settings import OidcSettings

T = TypeVar("T")
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0
_STEP_SECONDS = 40.0  # of all requests of one step
_METADATA_SECONDS = 3_600.0
_MOST_BYTES = 1_048_576
# Of a user; the session keeps them. Some of them would not do: the first entry that fits counts.
_MOST_GROUPS, _MOST_GROUP_CHARACTERS = 1_000, 20_000
_LONGEST_NAME = 200
# Clocks of two machines may differ by so much.
_LEEWAY_SECONDS = 60
# Signed by a key that the provider alone has: with a shared secret we could sign ourselves.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
_AT_ONCE = 4
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")  # as OAuth has them


class OpenIdError(MonitorError):
    """A log-in at the provider did not come about; one sentence for who wants in."""


class PendingLogin(Struct, frozen=True, kw_only=True):
    """What the browser keeps of a log-in that has begun, until the provider sends it back."""

    state: str
    nonce: str
    verifier: str
    leads_to: str


class OpenIdUser(Struct, frozen=True, kw_only=True):
    """Whom the provider vouches for."""

    name: str
    groups: tuple[str, ...]


class _Metadata(Struct, frozen=True, kw_only=True):
    """What a provider says of itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class OpenIdProvider:
    """Leads users to one provider, and recognises them when they come back."""

    def __init__(self, settings: OidcSettings, *, redirect_uri: str, clock: Clock) -> None:
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._metadata: tuple[float, _Metadata] | None = None  # read at (monotonic)
        self._room = asyncio.Semaphore(_AT_ONCE)

    @property
    def issuer(self) -> str:
        return self._settings.issuer

    async def begin(self, leads_to: str) -> tuple[str, PendingLogin]:
        """Return where to lead a user, and what the browser has to keep until it comes back.

        Raises:
            OpenIdError: the provider does not answer, or not as one.
        """
        metadata = await self._read_metadata()
        pending = PendingLogin(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            leads_to=leads_to,
        )
        url, _ = self._session().create_authorization_url(
            metadata.authorization_endpoint,
            state=pending.state,
            nonce=pending.nonce,
            code_verifier=pending.verifier,
        )
        return url, pending

    async def finish(self, code: str, pending: PendingLogin) -> OpenIdUser:
        """Return whom the provider vouches for by a code.

        Raises:
            OpenIdError: the code is refused, or what comes for it cannot be believed.
        """
        metadata = await self._read_metadata()
        return await self._in_thread(lambda: self._exchanged(metadata, code, pending))

    async def _read_metadata(self) -> _Metadata:
        now = self._clock.monotonic()
        if self._metadata is None or now - self._metadata[0] > _METADATA_SECONDS:
            self._metadata = now, await self._in_thread(self._discovered)
        return self._metadata[1]

    async def _in_thread(self, step: Callable[[], T]) -> T:
        requests, authlib = importlib.import_module("requests"), _authlib()
        try:
            async with asyncio.timeout(_STEP_SECONDS), self._room:
                return await asyncio.to_thread(step)
        except TimeoutError as exc:
            raise OpenIdError(
                f"the provider {self._settings.issuer} did not answer in time"
            ) from exc
        except requests.HTTPError as exc:
            status = exc.response.status_code
            raise OpenIdError(f"the provider {self._settings.issuer} answers {status}") from exc
        except (requests.RequestException, OSError) as exc:
            reason = type(exc).__name__
            raise OpenIdError(
                f"the provider {self._settings.issuer} cannot be reached ({reason})"
            ) from exc
        except authlib.AuthlibBaseError as exc:
            # The words of a provider may hold what it was sent, the client secret among it.
            is_code = exc.error is not None and _ERROR_CODE.fullmatch(exc.error)
            reason = exc.error if is_code else type(exc).__name__
            raise OpenIdError(f"the provider {self._settings.issuer} refused: {reason}") from exc

    # --- in a thread ---

    def _session(self) -> Any:
        settings = self._settings
        secret = settings.client_secret
        session = importlib.import_module("authlib.integrations.requests_client").OAuth2Session(
            client_id=settings.client_id,
            client_secret=None if secret is None else secret.reveal(),
            token_endpoint_auth_method="none" if secret is None else "client_secret_basic",
            scope=" ".join(settings.scopes),
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
        )
        session.verify = settings.ca_file or True
        session.trust_env = True
        return session

    def _discovered(self) -> _Metadata:
        issuer = self._settings.issuer.rstrip("/")
        document = self._document(f"{issuer}/.well-known/openid-configuration")
        try:
            metadata = msgspec.convert(document, _Metadata)
        except msgspec.ValidationError as exc:
            raise OpenIdError(
                f"the provider {issuer} does not describe itself as a provider: {exc}"
            ) from exc
        if metadata.issuer.rstrip("/") != issuer:
            raise OpenIdError(f"the provider {issuer} calls itself {harmless(metadata.issuer)}")
        return metadata

    def _exchanged(self, metadata: _Metadata, code: str, pending: PendingLogin) -> OpenIdUser:
        with self._session() as session:
            token = session.fetch_token(
                metadata.token_endpoint,
                code=code,
                grant_type="authorization_code",
                code_verifier=pending.verifier,
                timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                allow_redirects=False,
            )
        id_token = token.get("id_token")
        if not isinstance(id_token, str):
            raise OpenIdError(
                f"the provider {metadata.issuer} sent no ID token; is openid among the scopes?"
            )
        return self._user(self._claims(metadata, id_token, pending))

    def _claims(
        self, metadata: _Metadata, id_token: str, pending: PendingLogin
    ) -> Mapping[str, Any]:
        jwk, jwt, errors = (
            importlib.import_module(f"joserfc.{name}") for name in ("jwk", "jwt", "errors")
        )
        keys = self._document(metadata.jwks_uri)
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock.now().timestamp()),
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": metadata.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            azp={"value": self._settings.client_id},
            exp={"essential": True},
            nonce={"essential": True, "value": pending.nonce},
        )
        try:
            token = jwt.decode(
                id_token, jwk.KeySet.import_key_set(keys), algorithms=list(_ALGORITHMS)
            )
            registry.validate(token.claims)
        except (errors.JoseError, ValueError, KeyError, TypeError) as exc:
            reason = _why_invalid(exc)
            raise OpenIdError(f"the ID token of {metadata.issuer} is not valid: {reason}") from exc
        claims: Mapping[str, Any] = token.claims
        return claims

    def _user(self, claims: Mapping[str, Any]) -> OpenIdUser:
        settings = self._settings
        name = claims.get(settings.user_claim)
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise OpenIdError(
                f"the ID token has no {settings.user_claim}; set user_claim or scopes in "
                "[server.oidc]"
            )
        if not name.isprintable():
            raise OpenIdError(f"{settings.user_claim} of the ID token holds control characters")
        is_verified = claims.get("email_verified", True) in (True, "true")
        if settings.user_claim == "email" and not is_verified:
            raise OpenIdError("the provider has not verified this mail address")
        groups = claims.get(settings.groups_claim, ())
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list | tuple):
            groups = ()
        named = tuple(group for group in groups if isinstance(group, str))
        if len(named) > _MOST_GROUPS or sum(map(len, named)) > _MOST_GROUP_CHARACTERS:
            raise OpenIdError(
                f"the provider names {len(named):,} groups of this user, which are too many; let "
                "it send those of this client only"
            )
        return OpenIdUser(name=name, groups=named)

    def _document(self, url: str) -> Any:
        requests = importlib.import_module("requests")
        with requests.get(
            url,
            timeout=(_CONNECT_SECONDS, _READ_SECONDS),
            verify=self._settings.ca_file or True,
            allow_redirects=False,
            stream=True,
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise OpenIdError(f"the provider's {url} answers {answer.status_code}")
            body = answer.raw.read(_MOST_BYTES + 1, decode_content=True)
        if len(body) > _MOST_BYTES:
            raise OpenIdError(f"the provider's {url} answers with more than {_MOST_BYTES:,} bytes")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as exc:
            raise OpenIdError(f"the provider's {url} does not answer with JSON") from exc


def _why_invalid(error: Exception) -> str:
    """Return why an ID token is not taken; most often it is of another time than ours."""
    reason = getattr(error, "description", None) or str(error) or type(error).__name__
    is_of_another_time = "expired" in reason or "future" in reason or "not yet" in reason
    words = harmless(reason)
    return f"{words}; are the clocks of both machines right?" if is_of_another_time else words


def _authlib() -> Any:
    return importlib.import_module("authlib.common.errors")
