"""The records beside the main ones: what stands in flows, and what people and the workspace set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from monitor.sandbox.world.records.objects import Recipe, Record


@dataclass(slots=True, kw_only=True)
class DatasetNode(Record):
    """An imported dataset's place in a flow. Its id is a flow node's, like those of recipes."""

    counts_with: ClassVar[type[Record]] = Recipe
    flow_id: int
    dataset_id: int


@dataclass(slots=True, kw_only=True)
class ReferenceNode(Record):
    """The place in a flow of a recipe that belongs to another flow."""

    counts_with: ClassVar[type[Record]] = Recipe
    flow_id: int
    recipe_id: int  # of the other flow


@dataclass(slots=True, kw_only=True)
class ConnectorOverrides(Record):
    """What this workspace changes about one connector; ``document`` has its defaults' form."""

    first_id: ClassVar[int] = 9_951
    connector: str
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ResourceTask(Record):
    """A piece of work on a dataset that was requested and is not waited for."""

    first_id: ClassVar[int] = 9_901
    dataset_id: int


@dataclass(slots=True, kw_only=True)
class Folder(Record):
    """A place for flows."""

    first_id: ClassVar[int] = 31
    name: str = "Untitled folder"
    description: str | None = None


@dataclass(slots=True, kw_only=True)
class FlowNotificationSettings(Record):
    """When a flow's people get a mail about the end of its job groups; one for each flow."""

    first_id: ClassVar[int] = 9_001
    flow_id: int
    on_job_failure: str
    on_job_success: str


@dataclass(slots=True, kw_only=True)
class FlowRunParameterOverride(Record):
    """The value that a parameter has in all runs of a flow."""

    first_id: ClassVar[int] = 9_301
    flow_id: int
    override_key: str
    value: Any


@dataclass(slots=True, kw_only=True)
class FlowEdge(Record):
    """A link that was committed between two nodes of a flow."""

    first_id: ClassVar[int] = 8_001
    flow_id: int
    input_node_id: int
    output_node_id: int
    in_port_id: int = 0
    out_port_id: int = 0


@dataclass(slots=True, kw_only=True)
class UserDefinedFunction(Record):
    """A function written outside the workspace. `Recipe.function_ids` names its users."""

    first_id: ClassVar[int] = 1_101
    name: str
    description: str | None = None
    language: str = "java"
    input_types: tuple[str, ...] = ()
    output_type: str = "String"


@dataclass(slots=True, kw_only=True)
class SqlScript(Record):
    """SQL that a run of an output has executed: ``type`` says before its work (pre) or after."""

    first_id: ClassVar[int] = 4_901
    output_object_id: int
    sql_script: str
    type: str
    vendor: str
    connection_id: int | None = None
    run_parameters: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_before(self) -> bool:
        return self.type.casefold().startswith("pre")


@dataclass(slots=True, kw_only=True)
class EnvironmentParameter(Record):
    """A value that flows of the whole workspace may use by its key, as ``$env.key``."""

    first_id: ClassVar[int] = 41
    override_key: str
    value: Mapping[str, Any] = field(repr=False)  # some are secrets

    @property
    def is_secret(self) -> bool:
        """True for a value that says of itself that it is a secret."""
        return "secret" in (*self.value, self.value.get("type"))


@dataclass(slots=True, kw_only=True)
class Macro(Record):
    """Steps of a recipe under a name, so that other recipes can use them."""

    first_id: ClassVar[int] = 1_001
    name: str
    description: str = ""
    steps: tuple[str, ...] = ()
    parameters: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class AwsConfig(Record):
    """How a person, or the whole workspace where ``person_id`` is None, reaches AWS.

    ``key`` and ``secret`` are taken and never shown.
    """

    first_id: ClassVar[int] = 61
    person_id: int | None
    credential_provider: str  # default, temporary
    default_bucket: str | None = None
    extra_buckets: tuple[str, ...] = ()
    role: str | None = None
    external_id: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    active_role_id: int | None = None


@dataclass(slots=True, kw_only=True)
class AwsRole(Record):
    """A role that a configuration may take on."""

    first_id: ClassVar[int] = 66
    aws_config_id: int
    role: str
    created_from: str = "api"  # api, idp


@dataclass(slots=True, kw_only=True)
class DataflowOptions(Record):
    """Settings that one person's jobs of one ``type`` give the engine; one for each type."""

    first_id: ClassVar[int] = 9_801
    person_id: int
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class PlanOverride(Record):
    """The value of a run parameter in all runs of one node of a plan."""

    first_id: ClassVar[int] = 9_601
    plan_node_id: int
    override_key: str
    value: Any


@dataclass(slots=True, kw_only=True)
class WorkspaceSetting(Record):
    """A setting that a user saved. One without such a record has its default."""

    first_id: ClassVar[int] = 9_701
    key: str
    value: str | int | bool = field(repr=False)  # of some settings it is a secret


@dataclass(slots=True, kw_only=True)
class Deployment(Record):
    """A place for releases of a flow. The rules change what a new release brings along."""

    first_id: ClassVar[int] = 9_801
    name: str
    value_rules: tuple[Mapping[str, Any], ...] = ()
    object_rules: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class Release(Record):
    """A flow that was imported into a deployment; the newest one is active."""

    first_id: ClassVar[int] = 9_851
    deployment_id: int
    flow_id: int
    active: bool = True
