"""token_expiring: a token of the workspace expires soon, or cannot be refreshed. By our clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.alerting.rules.contract import (
    DAY,
    Firing,
    NoMemory,
    Ok,
    Requirement,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    TokenFacts,
    Unknown,
    seconds,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import TokenTrouble, TokenTroubleKind
from monitor.model.words import iso

# A token that expired so long ago, while the workspace still answers, is not the one in use.
_EXPIRED_SHOWN = timedelta(days=1)


def evaluate(
    state: StateInput[TokenFacts], _: NoMemory | None, rule: RuleSettings
) -> RuleAnswer[NoMemory]:
    now, facts = state.as_of, state.facts
    if now is None or facts.until is None or facts.until < now:
        return RuleAnswer(Unknown("the tokens have not been read lately"))
    if facts.trouble is not None:
        return RuleAnswer(_in_trouble(state.subject.thing, facts, facts.trouble, now))
    expires_at = facts.expires_at
    if expires_at is None or now >= expires_at + _EXPIRED_SHOWN:
        return RuleAnswer(Ok(at=now))
    since = expires_at - timedelta(seconds=rule.threshold)
    if facts.created_at is not None:
        since = max(since, facts.created_at)  # it may live for less than the threshold
    if now < since:
        return RuleAnswer(Ok(at=now), again_at=since)
    result = Firing(
        since=since,
        as_of=now,
        facts={
            "token": state.subject.thing,
            "expires_at": iso(expires_at),
            "reason": f"it is valid until {iso(expires_at)}, and is not renewed automatically",
            "advice": "make a new one and put it where the monitor reads it, or delete this one",
        },
    )
    return RuleAnswer(result)


def _in_trouble(token: str, facts: TokenFacts, trouble: TokenTrouble, now: datetime) -> Firing:
    """Fire at once. When the refresh token ends is not known; only the access token's end is."""
    reason = trouble.reason
    is_last = trouble.kind is not TokenTroubleKind.NEW_TOKEN_REFUSED
    if is_last and facts.expires_at is not None:
        reason = f"{reason}; the access token in use is valid until {iso(facts.expires_at)}"
    return Firing(
        since=trouble.since,
        as_of=now,
        facts={"token": token, "expires_at": None, "reason": reason, "advice": trouble.advice},
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.TOKEN_EXPIRING,
    subject_kind=SubjectKind.TOKEN,
    memory=NoMemory,
    evaluate=evaluate,
    about="A token of the workspace expires soon, or cannot be refreshed.",
    summary="A token of {workspace} {expires_at:expires|expired|is in danger}",
    description="Token {token}: {reason}. To do: {advice}.",
    template_fields=("token", "expires_at", "reason", "advice"),
    threshold=seconds("seconds before it expires", 14 * DAY, most=400 * DAY),
    requires=Requirement(
        table="inventory",
        key="tokens",
        other_table="oauth",
        hint="set tokens = true in [workspaces.inventory]",
    ),
    not_recorded="the event log does not hold tokens",
)
