"""The settings of one workspace: ``[[workspaces]]`` and the tables below it."""

from __future__ import annotations

from typing import Any

from monitor.callbacks.settings import CallbackSettings, SignatureMode
from monitor.catalogue.operations import Edition
from monitor.config import checks
from monitor.config.keys import Key, Kind, Section
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.workspace.settings import WorkspaceSettings

AUTO = "auto"


def _edition(word: str) -> dict[str, Any]:
    return {"edition": None if word == AUTO else Edition(word)}


WORKSPACES = Section(
    path="workspaces",
    target=WorkspaceSettings,
    is_repeated=True,
    about="One workspace. Repeat the table to watch several workspaces with one daemon.",
    fixed=("page_limit", "retry_total_seconds"),
    keys=(
        Key(
            name="name",
            kind=Kind.TEXT,
            is_required=True,
            example="marketing",
            check=checks.workspace_name,
            pattern=checks.WORKSPACE_NAME,
            about="Label, topic level and path segment. Renaming it starts a new workspace.",
        ),
        Key(
            name="url",
            kind=Kind.TEXT,
            is_required=True,
            example="https://api.clouddataprep.com",
            check=checks.http_url,
            about="Base URL of the API, with or without /v4 at its end.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-token",
            about="Access token. It shows what its owner can see, so use a user who can see "
            "everything.",
        ),
        Key(
            name="edition",
            kind=Kind.TEXT,
            choices=(AUTO, *Edition),
            spread=_edition,
            written_default=AUTO,
            about="Product edition; auto detects it by test reads. open allows every operation.",
        ),
        Key(
            name="connect_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=300,
            about="Timeout for connecting to the workspace, TLS included.",
        ),
        Key(
            name="read_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=600,
            about="Timeout between two reads of one response.",
        ),
        Key(
            name="total_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=3_600,
            about="Timeout for one request with its whole response.",
        ),
        Key(
            name="retries",
            kind=Kind.WHOLE,
            minimum=0,
            maximum=10,
            about="Retries after the first attempt; only for network errors, 429 and 5xx.",
        ),
        Key(
            name="body_limit_bytes",
            kind=Kind.WHOLE,
            minimum=65_536,
            maximum=1_073_741_824,
            about="Maximum size of a response, after decompression.",
        ),
        Key(
            name="page_size",
            kind=Kind.WHOLE,
            minimum=2,
            maximum=1_000,
            about="Rows per page. At least 2, so that pages can overlap.",
        ),
        Key(
            name="connections",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            about="Maximum number of open connections.",
        ),
        Key(
            name="verify_tls",
            kind=Kind.BOOLEAN,
            about="Verify the certificate. false exposes the token to anyone on the network path.",
        ),
        Key(
            name="ca_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/ssl/certs/company-ca.pem",
            about="PEM file with additional certificate authorities to trust.",
        ),
    ),
)

POLL = Section(
    path="workspaces.poll",
    target=PollSettings,
    about="What is polled from this workspace, and how often.",
    fixed=(
        "attempts",
        "connect_wait_cap_seconds",
        "flow_run_wait_cap_seconds",
        "jitter_share",
        "link_wait_seconds",
        "remembered_recipes",
        "waiting_details",
        "wake_gap_seconds",
    ),
    keys=(
        Key(
            name="active_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=3_600,
            about="Interval of polls for changes while runs are active.",
        ),
        Key(
            name="idle_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=3_600,
            about="Interval of polls for changes while nothing runs; a start is noticed that late.",
        ),
        Key(
            name="reconcile_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="Interval of reconciliation: active runs are compared with what the workspace "
            "lists.",
        ),
        Key(
            name="relist_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=86_400,
            about="Interval at which reconciliation lists every run created in the last day.",
        ),
        Key(
            name="overlap_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=86_400,
            about="How far each poll reaches back before the previous one; covers late commits.",
        ),
        Key(
            name="first_look_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=30 * 86_400,
            about="How far back the very first poll reads; runs that ended before make no events.",
        ),
        Key(
            name="requests_per_minute",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=60_000,
            target=WorkspaceSettings,
            about="Request budget; rate limits of the workspace can only lower it. Changes and "
            "ends go first; every other class of requests has a minimum share: none starves.",
        ),
        Key(
            name="names_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="Interval of polls for the names of flows and plans.",
        ),
        Key(
            name="schedules_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="Interval of polls for schedules; a missed start is reported after the next "
            "poll.",
        ),
        Key(
            name="progress_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=86_400,
            about="Minimum interval between reads of an active job group's progress.",
        ),
        Key(
            name="ranfor",
            kind=Kind.TEXTS,
            check=checks.not_empty,
            about="Values of ranfor whose job groups are followed as runs; others are only "
            "counted.",
        ),
        Key(
            name="follow",
            kind=Kind.TEXTS,
            check=checks.followed_runs,
            about='Runs to follow by id, as "job_group/123"; needed where the API cannot list '
            "runs.",
        ),
    ),
)

INVENTORY = Section(
    path="workspaces.inventory",
    target=InventorySettings,
    about="Inventory: objects, connections, tokens, usage and quality. Polled last, and only where "
    "the edition supports it.",
    fixed=("connections_at_once", "outputs", "profiles_at_once", "settings"),
    keys=(
        Key(
            name="interval_seconds",
            kind=Kind.NUMBER,
            minimum=300,
            maximum=86_400,
            about="Poll interval of each of the following.",
        ),
        Key(
            name="objects",
            kind=Kind.BOOLEAN,
            about="Count flows, plans, datasets and other objects: dataprep_objects.",
        ),
        Key(
            name="connections",
            kind=Kind.BOOLEAN,
            about="Test connections: dataprep_connection_up, and an event for each change. Each "
            "test "
            "opens the connection, which may start a paused database and cost money.",
        ),
        Key(
            name="tokens",
            kind=Kind.BOOLEAN,
            about="Read the expiry of access tokens: dataprep_token_expiry_timestamp_seconds.",
        ),
        Key(
            name="schedules",
            kind=Kind.BOOLEAN,
            about="Emit an event when a schedule is enabled or disabled.",
        ),
        Key(
            name="configuration",
            kind=Kind.BOOLEAN,
            about="Emit an event for each change of the workspace's settings; secrets are masked.",
        ),
        Key(
            name="usage",
            kind=Kind.BOOLEAN,
            about="Read this month's usage as the workspace reports it: dataprep_usage.",
        ),
        Key(
            name="profiles",
            kind=Kind.BOOLEAN,
            about="Read valid, mismatched and missing values of profiled outputs: "
            "dataprep_output_values_ratio.",
        ),
    ),
)

CALLBACKS = Section(
    path="workspaces.callbacks",
    target=CallbackSettings,
    is_optional=True,
    about="Callbacks of this workspace. Without this table they are refused. Needs [callbacks].",
    fixed=(),
    keys=(
        Key(
            name="public_url",
            kind=Kind.TEXT,
            check=checks.public_url,
            example="https://monitor.example.com",
            about="URL at which the workspace reaches [callbacks]. Without it no webhook task is "
            "created.",
        ),
        Key(
            name="flows",
            kind=Kind.TEXTS,
            check=checks.no_empty_text,
            about='Flows in which the daemon registers a webhook task: ids, names, or "*" for all.',
        ),
        Key(
            name="secret",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-callback-secret",
            about="Shared secret of callbacks, at least 16 characters: openssl rand -hex 32.",
        ),
        Key(
            name="signature",
            kind=Kind.TEXT,
            choices=tuple(SignatureMode),
            about="Bad signatures are ignored (off), counted (observe) or refused (require).",
        ),
        Key(
            name="signing_secret",
            kind=Kind.SECRET,
            example="dataprep-signing-secret",
            about="Key that webhook tasks sign with. Without it no signature is verified.",
        ),
        Key(
            name="detail_wait_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=60,
            target=PollSettings,
            about="How long the event of a failed run may wait for its reason, where the request "
            "budget allows to read it in that time; 0 emits it at once. Other ends never wait.",
        ),
        Key(
            name="inbox_bound",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=10_000_000,
            about="Maximum number of callbacks waiting for confirmation; more are answered 503.",
        ),
        Key(
            name="give_up_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=7 * 86_400,
            about="A callback whose run is not confirmed within this time is dropped.",
        ),
        Key(
            name="verify_seconds",
            kind=Kind.NUMBER,
            minimum=30,
            maximum=86_400,
            about="Interval of checks that the registered webhook tasks still exist.",
        ),
        Key(
            name="miss_after_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=86_400,
            about="An expected callback that is later than this counts as missed.",
        ),
    ),
)
