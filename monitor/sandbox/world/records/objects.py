"""The things of the sandbox's world, as plain records.

They are mutable, because a world is: only `world` and the engine change them. Instants are
workspace time. A person is named by id, and so is every other link between records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from monitor.model.triggers import ScheduleTrigger


@dataclass(slots=True, kw_only=True)
class Record:
    """What every thing has. ``deleted_at`` marks a deleted one, which is kept.

    ``extras`` is what a package said of it that has no place here; it is exported again.

    Every kind counts from its own ``first_id``, so that an id taken for one of another kind is
    noticed, or takes its ids out of the counter of ``counts_with``.
    """

    first_id: ClassVar[int] = 0
    counts_with: ClassVar[type[Record] | None] = None

    id: int
    created_at: datetime
    updated_at: datetime
    creator_id: int
    updater_id: int
    deleted_at: datetime | None = None
    extras: Mapping[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class Person(Record):
    """A user with an account. An administrator sees what every user owns."""

    first_id: ClassVar[int] = 11
    email: str
    name: str
    is_admin: bool = False
    is_disabled: bool = False
    state: str = "active"
    last_login_at: datetime | None = None
    output_home_dir: str = ""
    upload_dir: str = ""


@dataclass(slots=True, kw_only=True)
class Token(Record):
    """An access token of its creator. ``token_id`` is public, ``value`` is what is sent."""

    first_id: ClassVar[int] = 1
    token_id: str
    value: str = field(repr=False)
    description: str | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    pair_id: int | None = None  # of the pair that gave it


@dataclass(slots=True, kw_only=True)
class TokenPair(Record):
    """A refresh token of its creator, and how the access tokens live that it gives.

    Its access tokens are those with its ``pair_id``. Deletion is revocation.
    """

    first_id: ClassVar[int] = 1
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    refresh_token: str = field(repr=False)  # the newest; none before it is accepted
    refreshes: int = 0
    used_tokens: deque[str] = field(default_factory=lambda: deque(maxlen=1_000), repr=False)
    access_token_seconds: int
    expires_at: datetime  # of the pair, however often it is refreshed
    scope: str


@dataclass(slots=True, kw_only=True)
class Connection(Record):
    """A way to data outside the workspace."""

    first_id: ClassVar[int] = 21
    name: str
    uuid: str
    vendor: str
    vendor_name: str
    type: str = "jdbc"  # jdbc, rest, remotefile
    credential_type: str = "basic"
    host: str | None = None
    port: int | None = None
    is_global: bool = False
    credentials_shared: bool = False
    description: str | None = None
    advanced_credential_type: str | None = None
    ssh_tunneling: bool = False
    ssl: bool = False
    disable_type_inference: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    endpoints: Mapping[str, Any] | None = None
    credentials: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    advanced_credentials: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


@dataclass(slots=True, kw_only=True)
class ImportedDataset(Record):
    """Data that flows read: a file with ``uri``, or a table or query of a connection."""

    first_id: ClassVar[int] = 301
    name: str
    uri: str | None = None
    connection_id: int | None = None
    table_path: tuple[str, ...] = ()  # the table's own name stands last
    raw: tuple[str, ...] = ()  # the query, in place of a table
    description: str | None = None
    dynamic_path: str | None = None
    dynamic_bucket: str | None = None
    dynamic_host: str | None = None
    dynamic_user_info: str | None = None
    is_dynamic: bool = False
    is_converted: bool = False
    is_hidden: bool = False
    disable_type_inference: bool = False
    content: bytes | None = field(default=None, repr=False)  # of a file that was uploaded here
    run_parameters: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class Flow(Record):
    """A pipeline of recipes."""

    first_id: ClassVar[int] = 101
    name: str
    description: str | None = None
    folder_id: int | None = None
    default_output_dir: str | None = None
    shared_with: frozenset[int] = frozenset()  # people besides the owner
    read_only: frozenset[int] = frozenset()  # those of them who may not change it
    settings: Mapping[str, Any] = field(default_factory=dict)
    failure_ratio: float = 0.1  # of its job groups, where no outcome was ordered
    usual_seconds: float | None = None  # of each recipe, where work is regular; None: by the seed


@dataclass(slots=True, kw_only=True)
class Recipe(Record):
    """A wrangled dataset: what one job group executes. Its id is also its flow node's id.

    ``upstream_ids`` are recipes whose output it reads. A flow run waits for those of them that
    it runs itself. The primary input is the first of ``dataset_ids``, or, where there is none or
    ``primary_is_upstream``, the first of ``upstream_ids``.
    """

    first_id: ClassVar[int] = 1_201
    flow_id: int
    name: str
    dataset_ids: tuple[int, ...] = ()
    upstream_ids: tuple[int, ...] = ()
    primary_is_upstream: bool = False
    description: str | None = None
    function_ids: tuple[int, ...] = ()  # user-defined functions that it calls


@dataclass(slots=True, kw_only=True)
class OutputObject(Record):
    """What a recipe produces when it runs: scheduled and ad hoc outputs are separate ones."""

    first_id: ClassVar[int] = 2_301
    recipe_id: int  # the flow node
    execution: str = "photon"
    profiler: bool = False
    is_adhoc: bool = True
    ignore_recipe_errors: bool = False
    name: str | None = None
    description: str | None = None


@dataclass(slots=True, kw_only=True)
class WriteSetting(Record):
    """A file that an output writes. Parameters have their position in the path."""

    first_id: ClassVar[int] = 3_401
    output_object_id: int
    path: str
    action: str = "create"
    format: str = "csv"
    compression: str = "none"
    header: bool = True
    as_single_file: bool = True
    delim: str = ","
    has_quotes: bool = True
    include_mismatches: bool = True
    suffix: str | None = None
    connection_id: int | None = None
    run_parameters: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class Publication(Record):
    """A table that an output loads."""

    first_id: ClassVar[int] = 4_501
    output_object_id: int
    connection_id: int | None = None
    path: tuple[str, ...]
    table_name: str
    target_type: str
    action: str = "create"
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the target, kept only
    run_parameters: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class HttpTask:
    """The request that a plan's HTTP node sends. An empty ``url`` sends nothing and succeeds."""

    url: str = ""
    method: str = "post"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    secret_key: str = field(default="", repr=False)
    ssl_verification: bool = True
    max_retries: int = 3


@dataclass(slots=True, kw_only=True)
class PlanNode(Record):
    """A task of a plan; ``task_type`` is ``flow`` (with ``flow_id``), ``http`` or another one.

    Tasks of other types do nothing and end well.
    """

    first_id: ClassVar[int] = 5_601
    plan_id: int
    handle: str
    name: str
    task_type: str
    flow_id: int | None = None
    flow_node_ids: tuple[int, ...] = ()  # recipes to run; empty for all of the flow
    webhooks_enabled: bool = False
    http_task: HttpTask | None = None
    x: int = 0
    y: int = 0


@dataclass(slots=True, kw_only=True)
class PlanEdge(Record):
    """``out_plan_node_id`` follows ``in_plan_node_id`` if its end fits ``status_rule``."""

    first_id: ClassVar[int] = 6_701
    plan_id: int
    in_plan_node_id: int
    out_plan_node_id: int
    status_rule: str = "success"  # success, failure, always


@dataclass(slots=True, kw_only=True)
class Plan(Record):
    """A pipeline of flows. Who reads only is among those it is shared with."""

    first_id: ClassVar[int] = 51
    name: str
    description: str | None = None
    notifications_enabled: bool = True
    shared_with: frozenset[int] = frozenset()
    read_only: frozenset[int] = frozenset()  # those of them who may not change it
    original_plan_id: int | None = None  # the plan that it was said to be made of


@dataclass(slots=True, kw_only=True)
class PlanSnapshot(Record):
    """A plan as it was when it was run. Its id comes from the counter of the plans' ids.

    Nodes and edges are the plan's own records as they were; later edits make new records.
    """

    counts_with: ClassVar[type[Record]] = Plan
    original_plan_id: int
    name: str
    nodes: tuple[PlanNode, ...]
    edges: tuple[PlanEdge, ...]


@dataclass(slots=True, kw_only=True)
class ScheduleTask:
    """What a schedule starts."""

    kind: str  # "flow" or "plan"
    target_id: int


@dataclass(slots=True, kw_only=True)
class Schedule(Record):
    """Starts flows and plans by the clock.

    ``documents`` are the triggers as they were sent, where a client sent them; None means that
    ``triggers`` says all.
    """

    first_id: ClassVar[int] = 71
    name: str
    triggers: tuple[ScheduleTrigger, ...]
    tasks: tuple[ScheduleTask, ...]
    enabled: bool = True
    disable_reason: str | None = None
    is_skipped: bool = False  # its times come and start nothing, and nothing says so
    documents: tuple[Mapping[str, Any], ...] | None = None


@dataclass(slots=True, kw_only=True)
class ScheduleHistory(Record):
    """A schedule's definition as it was when it started a run."""

    first_id: ClassVar[int] = 801
    schedule_id: int
    name: str
    triggers: tuple[ScheduleTrigger, ...]
    tasks: tuple[ScheduleTask, ...]
    enabled: bool = True
    documents: tuple[Mapping[str, Any], ...] | None = None


@dataclass(slots=True, kw_only=True)
class WebhookFlowTask(Record):
    """A request that is sent when a job group of the flow ends."""

    first_id: ClassVar[int] = 901
    flow_id: int
    name: str
    url: str
    method: str = "post"
    trigger_event: str = "onJobDone"  # onJobSuccess, onJobFailure, onJobDone
    trigger_object: str = "any"  # any, some: only for the recipes in ``flow_node_ids``
    flow_node_ids: tuple[int, ...] = ()
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_key: str | None = field(default=None, repr=False)
    ssl_verification: bool = True
    retry_on_failure: bool = False
