"""token_expiring: an access token of the workspace expires soon. Evaluated by our own clock."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import StateInput, SubjectKind, TokenFacts
from monitor.alerting.rules.definition import DAY, NoMemory, Requirement, RuleDefinition, seconds
from monitor.alerting.rules.results import Firing, Ok, RuleAnswer, Unknown
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.words import iso

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
    if facts.created_at is not None:
        since = max(since, facts.created_at)  # it may live for less than the threshold
    if now < since:
        return RuleAnswer(Ok(at=now), again_at=since)
    result = Firing(
        since=since,
        as_of=now,
        facts={"token": state.subject.thing, "expires_at": iso(expires_at)},
    )
    return RuleAnswer(result)


DEFINITION = RuleDefinition(
    rule=RuleKind.TOKEN_EXPIRING,
    subject_kind=SubjectKind.TOKEN,
    memory=NoMemory,
    evaluate=evaluate,
    about="An access token of the workspace expires soon.",
    summary="A token of {workspace} {expires_at:expires|expired}",
    description="Token {token} is valid until {expires_at:time}, and not beyond.",
    template_fields=("token", "expires_at"),
    threshold=seconds("seconds before it expires", 14 * DAY, most=400 * DAY),
    requires=Requirement(
        table="inventory", key="tokens", hint="set tokens = true in [workspaces.inventory]"
    ),
    not_recorded="the event log does not hold tokens",
)
