"""token_expiring: a token of the workspace expires soon, or cannot be refreshed. By our clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.alerting.rules.contract import StateInput, SubjectKind, TokenFacts
from monitor.alerting.rules.definition import DAY, NoMemory, Requirement, RuleDefinition, seconds
from monitor.alerting.rules.results import Firing, Ok, RuleAnswer, Unknown
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import TokenTrouble
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
            "reason": "nobody renews it by itself",
            "advice": "make a new one and put it where the monitor reads it, or delete this one",
        },
    )
    return RuleAnswer(result)


def _in_trouble(token: str, facts: TokenFacts, trouble: TokenTrouble, now: datetime) -> Firing:
    """Fire at once: the access token in use is the last one, or there is none any more."""
    expires_at = facts.expires_at or trouble.since
    return Firing(
        since=trouble.since,
        as_of=now,
        facts={
            "token": token,
            "expires_at": iso(expires_at),
            "reason": trouble.reason,
            "advice": trouble.advice,
        },
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.TOKEN_EXPIRING,
    subject_kind=SubjectKind.TOKEN,
    memory=NoMemory,
    evaluate=evaluate,
    about="A token of the workspace expires soon, or cannot be refreshed.",
    summary="A token of {workspace} {expires_at:expires|expired}",
    description="Token {token} is valid until {expires_at:time}: {reason}. To do: {advice}.",
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
