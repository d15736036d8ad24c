"""token_expiring: an access token of the workspace expires soon. Evaluated by our own clock."""

from __future__ import annotations

from datetime import timedelta

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
from monitor.alerting.rules.templates import iso_time

# A token that expired so long ago, while the workspace still answers, is not the one in use.
_EXPIRED_SHOWN = timedelta(days=1)


def evaluate(
    state: StateInput[TokenFacts], _: NoMemory | None, rule: RuleSettings
) -> RuleAnswer[NoMemory]:
    now, facts = state.as_of, state.facts
    if now is None or facts.until is None or facts.until < now:
        return RuleAnswer(Unknown("the tokens have not been read lately"))
    expires_at = facts.expires_at
    if expires_at is None or now >= expires_at + _EXPIRED_SHOWN:
        return RuleAnswer(Ok(at=now))
    since = expires_at - timedelta(seconds=rule.threshold)
    if now < since:
        return RuleAnswer(Ok(at=now), again_at=since)
    result = Firing(
        since=since,
        as_of=now,
        facts={
            "token": state.subject.thing,
            "expires_at": iso_time(expires_at),
            "remaining_seconds": (expires_at - now).total_seconds(),
        },
    )
    return RuleAnswer(result)


DEFINITION = RuleDefinition(
    rule=RuleKind.TOKEN_EXPIRING,
    subject_kind=SubjectKind.TOKEN,
    memory=NoMemory,
    evaluate=evaluate,
    about="An access token of the workspace expires soon.",
    summary="A token of {workspace} expires in {remaining_seconds:duration}",
    description="Token {token} expires at {expires_at:time}.",
    template_fields=("token", "expires_at", "remaining_seconds"),
    threshold=seconds("seconds before it expires", 14 * DAY, most=400 * DAY),
    requires=Requirement(
        table="inventory", key="tokens", hint="set tokens = true in [workspaces.inventory]"
    ),
    not_recorded="the event log does not hold tokens",
)
