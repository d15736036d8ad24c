"""Configurations and roles of AWS, as data."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, View
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.records.parts import AwsConfig, AwsRole


def config_of(view: View, role: AwsRole) -> AwsConfig | None:
    """Return the configuration that a role belongs to."""
    return view.world.shelf(AwsConfig).get(role.aws_config_id, with_deleted=True)


def _sees_config(view: View, aws_config: AwsConfig) -> bool:
    return view.person.is_admin or aws_config.person_id in (None, view.person.id)


def _sees_role(view: View, aws_role: AwsRole) -> bool:
    config = config_of(view, aws_role)
    return config is not None and _sees_config(view, config)


def _credential(view: View, aws_config: AwsConfig) -> Json:
    """Name the stored key; one configuration has one, so that they share an id."""
    del view
    return None if aws_config.key is None else reference(aws_config.id)


AWS_CONFIG = Kind(
    record=AwsConfig,
    name="awsConfig",
    plural="awsconfigs",
    model="AwsConfig",
    requests=("AwsConfigCreateRequest", "AwsConfigUpdateRequest"),
    references=(
        Reference(attribute="person_id", target=Person, sent="personId"),
        Reference(attribute="active_role_id", target=AwsRole, on_delete=OnDelete.CLEAR),
    ),
    computed={"credential": _credential},
    unkept=frozenset({"id", "workspaceId"}),
    is_visible_to=_sees_config,
    filter_fields=("defaultBucket", "role"),
)
AWS_ROLE = Kind(
    record=AwsRole,
    name="awsRole",
    plural="awsroles",
    model="AwsRole",
    requests=("AwsRoleCreateRequest", "AwsRoleUpdateRequest"),
    references=(Reference(attribute="aws_config_id", target=AwsConfig, shown="awsConfig"),),
    # A role is answered by two models, one with the configuration and one with its id.
    computed={"awsConfigId": lambda _, record: record.aws_config_id},
    unkept=frozenset({"personId", "workspaceId", "createdAt", "updatedAt", "deletedAt"}),
    is_visible_to=_sees_role,
    filter_fields=("role",),
)
