"""Samples of the operations on people, tokens and AWS settings."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import Person, Token
from monitor.sandbox.world.records.parts import AwsConfig, AwsRole
from tests.sandbox.samples.sample import Living, Sample, of

ROLE = "arn:aws:iam::123456789012:role/wrangler"


def furnish(living: Living) -> None:
    """Give the owner a way to AWS."""
    config = living.create(
        AwsConfig,
        person_id=living.things.owner.id,
        credential_provider="default",
        default_bucket="in",
        extra_buckets=("out",),
        key="AKIA",
        secret="never shown",
    )
    role = living.create(AwsRole, aws_config_id=config.id, role=ROLE)
    config.active_role_id = role.id


def own_token(living: Living) -> tuple[str]:
    """Return the public id of the owner's token."""
    return (living.first(Token).token_id,)


SAMPLES = {
    "createAccessToken": Sample(body=lambda _: {"lifetimeSeconds": 600, "description": "mine"}),
    "listApiAccessTokens": Sample(),
    "getApiAccessToken": Sample(path=own_token),
    "deleteApiAccessToken": Sample(path=own_token),
    "createAwsConfig": Sample(
        body=lambda _: {"credentialProvider": "default", "key": "AKIA", "secret": "s"}
    ),
    "listAwsConfigs": Sample(),
    "updateAwsConfig": Sample(path=of(AwsConfig), body=lambda _: {"defaultBucket": "other"}),
    "createAwsRole": Sample(body=lambda _: {"role": ROLE}),
    "listAwsRoles": Sample(),
    "updateAwsRole": Sample(path=of(AwsRole), body=lambda _: {"role": f"{ROLE}-2"}),
    "deleteAwsRole": Sample(path=of(AwsRole)),
    "setDataflowOption": Sample(path=lambda _: ("default",), body=lambda _: {"region": "r"}),
    "setCurrentPersonDataflowOption": Sample(
        path=lambda _: ("default",), body=lambda _: {"region": "r"}
    ),
    "setPersonDataflowOption": Sample(
        path=lambda living: (living.things.colleague.email, "default"),
        body=lambda _: {"region": "r"},
        as_admin=True,
    ),
    "getCurrentPerson": Sample(query={"includePrivileges": "true"}),
    "getPerson": Sample(path=of(Person)),
    "listPerson": Sample(query={"includePrivileges": "true"}),
}
