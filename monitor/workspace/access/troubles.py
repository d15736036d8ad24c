"""Troubles of a token pair, in words for people: what happened, and what to do. No I/O."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.model.live_state import TokenTrouble, TokenTroubleKind
from monitor.model.secrets import Secret
from monitor.model.waits import backoff_seconds
from monitor.workspace.access.stored_tokens import RefusedToken, StoredTokens, candidates
from monitor.workspace.access.token_endpoint import NotRefreshed, RefreshOutcome

_FIRST_WAIT_SECONDS, _WAIT_CAP_SECONDS = 1.0, 60.0
_REJECTED_WAIT_SECONDS = 300.0  # a mistake of the settings passes by a person only
_LASTING_SECONDS = 60.0  # a failure that passes sooner needs no action

NEW_PAIR = (
    "generate a new token pair in the workspace's user preferences and put its refresh token where"
    " refresh_token of [workspaces.oauth] stands; it is read within a minute"
)
_TRY_AGAIN = (
    "the same refresh token is tried again, and works if the request was never handled; if it is"
    f" refused, {NEW_PAIR}"
)
_SETTINGS = "correct token_url, client_id, client_secret or scope of [workspaces.oauth]"
_REPAIR = "repair the way to token_url; the refresh is tried again by itself"
_STORE = "let the store be written again; see its own alert"


class Failing(Struct, frozen=True, kw_only=True):
    """Refreshes that fail, since the last good one."""

    outcome: RefreshOutcome  # of the last
    reason: str
    since: datetime
    began: float  # the same, monotonic
    attempts: int
    is_unanswered: bool  # one of them was sent and never answered


class PutOff(Struct, frozen=True, kw_only=True):
    """A new configured refresh token that fails, while the stored pair goes on."""

    digest: str
    failing: Failing
    until: float  # monotonic


class RefreshFailures:
    """The refreshes that fail since the last good one, and when the next may be sent.

    A new configured token that fails beside a stored pair is counted by itself, so that it does
    not delay the pair's own refreshes. Instants are given: ``now`` and monotonic seconds.
    """

    def __init__(self) -> None:
        self.failing: Failing | None = None
        self._put_off: PutOff | None = None
        self.wait_until = float("-inf")  # monotonic; before it nothing is sent

    def add(
        self,
        failure: NotRefreshed,
        *,
        new: str | None,
        is_from_before: bool,
        now: datetime,
        monotonic: float,
    ) -> bool:
        """Count one more, and return True where it is of another kind than the one before.

        ``new`` is the digest of a new token that fails while the stored pair goes on.
        ``is_from_before``: an earlier life of the daemon may have sent a refresh, too.
        """
        before = self.failing
        if new is not None:
            before = None if self._put_off is None else self._put_off.failing
        is_from_before = is_from_before and before is None
        failing = failing_after(
            before, failure, now=now, monotonic=monotonic, is_from_before=is_from_before
        )
        until = monotonic + wait_after(failing, failure)
        if new is None:
            self.failing, self.wait_until = failing, until
        else:
            self._put_off = PutOff(digest=new, failing=failing, until=until)
        return before is None or before.outcome is not failure.outcome

    def put_off(self, monotonic: float) -> str | None:
        """Return the digest of a new token that is not to be tried yet."""
        put_off = self._put_off
        return None if put_off is None or monotonic >= put_off.until else put_off.digest

    def retry_now(self) -> None:
        """Let the next refresh be sent at once: a person has changed something."""
        self.wait_until, self._put_off = float("-inf"), None

    def trouble(
        self, tokens: StoredTokens, configured: Secret, monotonic: float
    ) -> TokenTrouble | None:
        return trouble_of(tokens, configured, self.failing, monotonic, put_off=self._put_off)


def failing_after(
    before: Failing | None,
    failure: NotRefreshed,
    *,
    now: datetime,
    monotonic: float,
    is_from_before: bool,
) -> Failing:
    """Return the refreshes that fail, with one more.

    ``is_from_before``: an earlier life of the daemon has sent one that was not answered either.
    """
    is_unanswered = is_from_before or failure.outcome is RefreshOutcome.UNANSWERED
    return Failing(
        outcome=failure.outcome,
        reason=failure.reason,
        since=now if before is None else before.since,
        began=monotonic if before is None else before.began,
        attempts=1 if before is None else before.attempts + 1,
        is_unanswered=is_unanswered or (before is not None and before.is_unanswered),
    )


def wait_after(failing: Failing, failure: NotRefreshed) -> float:
    """Return the seconds until the next refresh may be sent."""
    wait = backoff_seconds(
        failing.attempts, base_seconds=_FIRST_WAIT_SECONDS, cap_seconds=_WAIT_CAP_SECONDS
    )
    if failure.outcome is RefreshOutcome.REJECTED:
        wait = _REJECTED_WAIT_SECONDS
    return max(wait, failure.wait_seconds or 0.0)


def trouble_of(
    tokens: StoredTokens,
    configured: Secret,
    failing: Failing | None,
    monotonic: float,
    *,
    put_off: PutOff | None = None,
) -> TokenTrouble | None:
    """Return what an operator should know; None while all is well or may be in a moment."""
    known = candidates(tokens, configured)
    refusals = [tokens.refused[each.digest] for each in known if each.digest in tokens.refused]
    if len(refusals) == len(known):
        return _locked_out(refusals)
    if refusals:
        return TokenTrouble(
            kind=TokenTroubleKind.NEW_TOKEN_REFUSED,
            since=refusals[0].since,
            reason=f"the new refresh token is refused ({refusals[0].reason});"
            " the pair before it stays in use",
            advice=NEW_PAIR,
        )
    # Of two candidates, what fails is the stored pair, and the new token is put off.
    trouble = None if failing is None else _of_one(tokens, known[-1].digest, failing, monotonic)
    if (
        trouble is not None
        or put_off is None
        or [each.digest for each in known[:-1]] != [put_off.digest]
    ):
        return trouble
    trouble = _of_one(tokens, put_off.digest, put_off.failing, monotonic)
    return trouble and msgspec.structs.replace(
        trouble,
        reason=f"the new refresh token fails: {trouble.reason}; the pair before it stays in use",
    )


def _of_one(
    tokens: StoredTokens, digest: str, failing: Failing, monotonic: float
) -> TokenTrouble | None:
    if not failing.is_unanswered:
        return _failing(failing, monotonic)
    sent_at = tokens.sent.get(digest, failing.since)
    return TokenTrouble(
        kind=TokenTroubleKind.ANSWER_LOST,
        since=sent_at,
        reason=f"a refresh was sent at {_time(sent_at)} and its answer is lost ({failing.reason})",
        advice=_TRY_AGAIN,
    )


def _locked_out(refusals: list[RefusedToken]) -> TokenTrouble:
    refusal = refusals[0]
    lost = next((each for each in refusals if each.unanswered_at is not None), None)
    if lost is not None and lost.unanswered_at is not None:
        why = (
            f"a refresh was sent at {_time(lost.unanswered_at)} and its answer was never stored,"
            " so the new pair is lost"
        )
    else:
        why = (
            "another program or daemon has used it, the store is an older copy, or it was"
            " disabled, deleted or has ended"
        )
    return TokenTrouble(
        kind=TokenTroubleKind.LOCKED_OUT,
        since=refusal.since,
        reason=f"locked out: the refresh token is refused ({refusal.reason}): {why}",
        advice=NEW_PAIR,
    )


def _failing(failing: Failing, monotonic: float) -> TokenTrouble | None:
    if failing.outcome is RefreshOutcome.REJECTED:
        advice = _SETTINGS
    elif monotonic - failing.began < _LASTING_SECONDS:
        return None
    else:
        advice = _STORE if failing.outcome is RefreshOutcome.STORE else _REPAIR
    return TokenTrouble(
        kind=TokenTroubleKind.NOT_REFRESHED,
        since=failing.since,
        reason=f"the access token cannot be refreshed: {failing.reason}",
        advice=advice,
    )


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
