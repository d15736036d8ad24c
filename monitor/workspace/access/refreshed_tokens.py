"""Refreshes the access token of one workspace, so that no step of it costs the token pair.

Who owns which state: `run` alone reads and writes ``_tokens``, in one task of the daemon that holds
the shard; requests only read it, wake that task and wait for its next cycle. A refresh under way
outlives a cancelled `run` until its answer is stored or its time limits have passed: a dropped
answer costs the pair.

The order of a refresh: that it is sent is stored; it is sent; the new pair is stored; only then its
access token is used. While the store refuses, nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from monitor.model.clock import Clock
from monitor.model.errors import (
    BusError,
    BusLostError,
    BusUnavailableError,
    UnauthorizedError,
    WorkspaceUnreachableError,
)
from monitor.model.live_state import TokenStatus
from monitor.model.secrets import Secret
from monitor.model.waits import backoff_seconds, happens_within, to_its_end
from monitor.workspace.access.access_tokens import (
    READ_AGAIN_SECONDS,
    OauthSecrets,
    TokenInUse,
)
from monitor.workspace.access.stored_tokens import (
    Candidate,
    StoredTokens,
    TokenMemory,
    TokenPair,
    TokenStore,
    UnstoredPair,
    is_beside_pair,
    next_candidate,
    refresh_due_in,
    trimmed,
    with_pair,
    with_refusal,
    with_sent,
    without_sent,
)
from monitor.workspace.access.token_endpoint import (
    NotRefreshed,
    Refreshed,
    RefreshOutcome,
    TokenEndpoint,
)
from monitor.workspace.access.troubles import RefreshFailures
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.settings import OauthSettings

log = structlog.get_logger()

_FIRST_WAIT_SECONDS, _WAIT_CAP_SECONDS = 1.0, 60.0
_LEAST_GAP_SECONDS = 5.0  # between two refreshes, however short the lives
_REFUSED_GAP_SECONDS = 60.0  # between two refreshes because of a 401
_REQUEST_WAIT_SECONDS = 45.0  # of a request for a token: a refresh and its storing
_STORED_AT_END_SECONDS = 30.0  # of a stop: a new pair that the store refuses
# Whether the endpoint has handled the refresh cannot be known.
_UNKNOWN = frozenset({RefreshOutcome.UNANSWERED, RefreshOutcome.SERVER_ERROR})


class RefreshedTokens:
    """The `AccessTokens` of a workspace with `[workspaces.oauth]`."""

    def __init__(
        self,
        workspace: str,
        oauth: OauthSettings,
        *,
        endpoint: TokenEndpoint,
        store: TokenStore,
        memory: TokenMemory,
        clock: Clock,
        metrics: ApiMetrics,
        show: Callable[[TokenStatus], None],
    ) -> None:
        self._workspace = workspace
        self._endpoint = endpoint
        self._store = store
        self._memory = memory
        self._clock = clock
        self._metrics = metrics
        self._show = show
        self._pair_expires_at = oauth.expires_at
        for outcome in RefreshOutcome:
            metrics.token_refreshes.labels(workspace, outcome.value)
        self._configured = OauthSecrets(
            oauth, workspace=workspace, clock=clock, register=memory.register
        )
        self._tokens: StoredTokens | None = None  # None: not loaded
        self._in_use = TokenInUse(clock)
        self._failures = RefreshFailures()
        self._renewed_at = float("-inf")  # monotonic; because of a 401
        self._must_renew = False  # True until the refresh that a 401 asked for is over
        self._ending = asyncio.Event()
        self._has_ended = False  # `run` has, and nothing refreshes any more
        self._woken = asyncio.Event()
        self._cycle = asyncio.Event()  # another one for each cycle of `run`

    # --- for requests ---

    async def current(self) -> Secret:
        if (token := self._in_use.token) is None:
            token = await self._other_than(None)
        if token is None:
            raise self._why_none()
        return token

    async def renew(self, refused: Secret | None) -> bool:
        if self._in_use.token != refused:
            return self._in_use.token is not None
        if not self._must_renew:
            now = self._clock.monotonic()
            if now - self._renewed_at < _REFUSED_GAP_SECONDS:
                return False  # a new token is refused as well, so the tokens are not the cause
            self._renewed_at, self._must_renew = now, True
        return await self._other_than(refused) is not None

    async def _other_than(self, refused: Secret | None) -> Secret | None:
        """Return another access token once there is one; None if the refresh brings none."""
        for _ in range(2):  # the first cycle may have been past its decision
            if self._has_ended:
                return None
            self._woken.set()
            await happens_within(
                self._cycle.wait(),
                clock=self._clock,
                seconds=_REQUEST_WAIT_SECONDS,
                name=f"{self._workspace}: access token",
            )
            if (token := self._in_use.token) is not None and token != refused:
                return token
        return None

    def _why_none(self) -> UnauthorizedError | WorkspaceUnreachableError:
        status = self._status()
        if status.trouble is not None and self._is_locked_out():
            return UnauthorizedError(f"no access token is valid: {status.trouble.reason}")
        failing = self._failures.failing
        reason = "it is not refreshed yet" if failing is None else failing.reason
        return WorkspaceUnreachableError(f"no access token is valid: {reason}")

    def _is_locked_out(self) -> bool:
        tokens, now = self._tokens, self._clock.now()
        return (
            tokens is not None
            and next_candidate(tokens, self._configured.refresh_token, now) is None
        )

    # --- the task ---

    async def run(self) -> None:
        """Refresh ahead of every expiry until cancelled.

        Raises:
            BusError: what is stored cannot be read; nothing was sent.
        """
        self._has_ended = False
        try:
            await self._run()
        finally:
            self._has_ended = True
            self._cycle.set()  # requests that wait for a token fail now

    async def _run(self) -> None:
        # Only now: the former owner of the pair has ended, so nothing else changes it.
        self._tokens = await self._store.load()
        if (pair := self._tokens.pair) is not None:
            self._register(pair)
        self._in_use.load(pair)
        self._ending.clear()
        await self._store_left_pair()
        while True:
            self._woken.clear()
            if await self._configured.read_again():
                self._failures.retry_now()
            await self._refresh_if_due()
            self._show_status()
            cycle, self._cycle = self._cycle, asyncio.Event()
            cycle.set()
            await happens_within(
                self._woken.wait(),
                clock=self._clock,
                seconds=self._seconds_until_due(),
                name=f"{self._workspace}: next refresh",
            )

    def _register(self, pair: TokenPair) -> None:
        owner = f"{self._workspace} token pair"
        self._memory.register(pair.access_token, pair.refresh_token, of=owner)

    async def _store_left_pair(self) -> None:
        """Store a pair that the store refused before this task, or the shard, came back."""
        left = self._memory.unstored.get(self._workspace)
        if left is None or self._tokens is None:
            return
        if left.follows(self._tokens, self._configured.refresh_token):
            await self._keep(left)
        else:
            self._memory.unstored.pop(self._workspace)

    def _due(self) -> tuple[Candidate, float] | None:
        """Return what is to be sent, and in how many seconds; None: nothing, as far as is known."""
        tokens = self._tokens
        if tokens is None:
            return None
        configured, now = self._configured.refresh_token, self._clock.now()
        monotonic, candidate = self._clock.monotonic(), None
        if (put_off := self._failures.put_off(monotonic)) is not None:
            candidate = next_candidate(tokens, configured, now, but=put_off)
        candidate = candidate or next_candidate(tokens, configured, now)
        if candidate is None:
            return None
        due_in = 0.0
        if not self._must_renew:
            known = refresh_due_in(tokens, candidate, left_seconds=self._in_use.left_seconds)
            if known is None:
                return None
            due_in = known
        return candidate, max(due_in, self._failures.wait_until - monotonic)

    def _seconds_until_due(self) -> float:
        due = self._due()
        # Never long: a machine may sleep, and its clock be set.
        return READ_AGAIN_SECONDS if due is None else min(max(due[1], 0.05), READ_AGAIN_SECONDS)

    async def _refresh_if_due(self) -> None:
        due = self._due()
        if due is not None and due[1] <= 0:
            name = f"{self._workspace}: refresh"
            try:
                await to_its_end(self._refresh(due[0]), on_cancelled=self._ending.set, name=name)
            finally:
                self._must_renew = False

    async def _refresh(self, candidate: Candidate) -> None:
        tokens = self._tokens or StoredTokens()
        unanswered_at = tokens.sent.get(candidate.digest)
        if unanswered_at is None:
            sent = trimmed(
                with_sent(tokens, candidate, self._clock.now()), self._configured.refresh_token
            )
            try:
                await self._store.store(sent)
            except BusLostError:
                raise
            except BusError as exc:
                reason = f"the store refuses, and a refresh needs it: {exc}"
                self._failed(NotRefreshed(outcome=RefreshOutcome.STORE, reason=reason))
                return
            self._tokens = tokens = sent
        began_at, began = self._clock.now(), self._clock.monotonic()
        answer = await self._endpoint.refresh(
            candidate.token, client_secret=self._configured.client_secret
        )
        if isinstance(answer, Refreshed):
            life = answer.life_seconds
            pair = TokenPair(
                refresh_token=answer.refresh_token or candidate.token,
                access_token=answer.access_token,
                obtained_at=began_at,
                expires_at=None if life is None else began_at + timedelta(seconds=life),
                configured=candidate.configured,
            )
            self._register(pair)
            await self._take(tokens, candidate, pair, ends=None if life is None else began + life)
        else:
            await self._take_failure(tokens, candidate, answer, unanswered_at)

    async def _take(
        self, tokens: StoredTokens, candidate: Candidate, pair: TokenPair, *, ends: float | None
    ) -> None:
        renewed = trimmed(with_pair(tokens, candidate, pair), self._configured.refresh_token)
        await self._keep(UnstoredPair(tokens=renewed, before=tokens.pair, ends=ends))
        self._metrics.token_refreshes.labels(self._workspace, RefreshOutcome.REFRESHED.value).inc()
        self._failures.wait_until = self._clock.monotonic() + _LEAST_GAP_SECONDS
        expires_at = None if pair.expires_at is None else pair.expires_at.isoformat()
        log.info("access token refreshed", workspace=self._workspace, expires_at=expires_at)

    async def _keep(self, new: UnstoredPair) -> None:
        """Return once a new pair is stored. Until then its access token is not used."""
        self._memory.unstored[self._workspace] = new
        attempt, end = 0, float("inf")
        while True:
            attempt += 1
            if self._ending.is_set():
                end = min(end, self._clock.monotonic() + _STORED_AT_END_SECONDS)
            try:
                await self._store.store(new.tokens)
                break
            except BusError as exc:
                log.error(  # noqa: TRY400 - an error of the store explains itself
                    "a new token pair is not stored; without it the workspace locks us out",
                    workspace=self._workspace,
                    reason=str(exc),
                    attempt=attempt,
                )
                if isinstance(exc, BusLostError):
                    raise
                reason = f"a new token pair waits for the store: {exc}"
                self._failed(NotRefreshed(outcome=RefreshOutcome.STORE, reason=reason))
                self._show_status()
                if self._clock.monotonic() >= end:
                    raise
            wait = backoff_seconds(
                attempt, base_seconds=_FIRST_WAIT_SECONDS, cap_seconds=_WAIT_CAP_SECONDS
            )
            if self._ending.is_set():
                await self._clock.sleep(_FIRST_WAIT_SECONDS)
            else:
                name = f"{self._workspace}: store a token pair"
                await happens_within(
                    self._ending.wait(), clock=self._clock, seconds=wait, name=name
                )
        self._memory.unstored.pop(self._workspace)
        self._in_use.take(new.tokens.pair, ends=new.ends)
        self._tokens, self._failures.failing = new.tokens, None

    async def _take_failure(
        self,
        tokens: StoredTokens,
        candidate: Candidate,
        failure: NotRefreshed,
        unanswered_at: datetime | None,
    ) -> None:
        if failure.outcome is RefreshOutcome.REFUSED:
            tokens = with_refusal(
                tokens,
                candidate,
                at=self._clock.now(),
                reason=failure.reason,
                unanswered_at=unanswered_at,
            )
            with contextlib.suppress(BusUnavailableError):  # a restart asks once more
                await self._store.store(tokens)
        elif failure.outcome not in _UNKNOWN and unanswered_at is None:
            # The store learns that with its next write; until then a restart doubts for nothing.
            tokens = without_sent(tokens, candidate)
        self._tokens = tokens
        new = None  # one that fails while the stored pair goes on
        if failure.outcome is not RefreshOutcome.REFUSED and is_beside_pair(
            tokens, candidate, self._configured.refresh_token, self._clock.now()
        ):
            new = candidate.digest
        self._failed(failure, new=new, is_from_before=unanswered_at is not None)

    def _failed(
        self, failure: NotRefreshed, *, new: str | None = None, is_from_before: bool = False
    ) -> None:
        self._metrics.token_refreshes.labels(self._workspace, failure.outcome.value).inc()
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if self._failures.add(
            failure, new=new, is_from_before=is_from_before, now=now, monotonic=monotonic
        ):
            log.warning(
                "access token not refreshed",
                workspace=self._workspace,
                outcome=failure.outcome.value,
                reason=failure.reason,
            )

    def _show_status(self) -> None:
        status = self._status()
        self._show(status)
        if status.expires_at is not None:
            stamp = status.expires_at.timestamp()
            self._metrics.token_expiry.labels(self._workspace).set(stamp)
        elif status.refreshed_at is not None:  # the newest answer does not say
            with contextlib.suppress(KeyError):
                self._metrics.token_expiry.remove(self._workspace)

    def _status(self) -> TokenStatus:
        tokens = self._tokens or StoredTokens()
        return TokenStatus(
            refreshed_at=self._in_use.obtained_at,
            expires_at=self._in_use.expires_at,
            pair_expires_at=self._pair_expires_at,
            trouble=self._failures.trouble(
                tokens, self._configured.refresh_token, self._clock.monotonic()
            ),
        )
