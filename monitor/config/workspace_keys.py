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
    about="One workspace. Repeat the table for each further one; one daemon watches many.",
    fixed=("page_limit", "retry_total_seconds"),
    keys=(
        Key(
            name="name",
            kind=Kind.TEXT,
            is_required=True,
            example="marketing",
            check=checks.workspace_name,
            pattern=checks.WORKSPACE_NAME,
            about="The label, topic level and path segment. A new name is a new workspace.",
        ),
        Key(
            name="url",
            kind=Kind.TEXT,
            is_required=True,
            example="https://api.clouddataprep.com",
            check=checks.http_url,
            about="The base of the API, with or without /v4 at its end.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-token",
            about="The access token. It sees what its owner sees, so take a user who sees all.",
        ),
        Key(
            name="edition",
            kind=Kind.TEXT,
            choices=(AUTO, *Edition),
            spread=_edition,
            written_default=AUTO,
            about="What the product offers; auto finds it out by reads. open refuses nothing.",
        ),
        Key(
            name="connect_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=300,
            about="To reach the workspace, with TLS.",
        ),
        Key(
            name="read_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=600,
            about="The longest silence inside one answer.",
        ),
        Key(
            name="total_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=3_600,
            about="One request with its whole answer.",
        ),
        Key(
            name="retries",
            kind=Kind.WHOLE,
            minimum=0,
            maximum=10,
            about="Tries after the first, for network faults, 429 and 5xx only.",
        ),
        Key(
            name="body_limit_bytes",
            kind=Kind.WHOLE,
            unit="bytes",
            minimum=65_536,
            maximum=1_073_741_824,
            about="The largest answer that is read, after decompression.",
        ),
        Key(
            name="page_size",
            kind=Kind.WHOLE,
            minimum=2,
            maximum=1_000,
            about="Rows asked for at once. At least 2, so that pages can overlap.",
        ),
        Key(
            name="connections",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            about="Connections that are open at the same time.",
        ),
        Key(
            name="verify_tls",
            kind=Kind.BOOLEAN,
            about="Whether the certificate is checked. false gives the token to anybody between.",
        ),
        Key(
            name="ca_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/ssl/certs/company-ca.pem",
            about="PEM with further authorities to trust, for certificates of one's own.",
        ),
    ),
)

POLL = Section(
    path="workspaces.poll",
    target=PollSettings,
    about="How often this workspace is asked, and for what.",
    fixed=(
        "attempts",
        "connect_wait_cap_seconds",
        "flow_run_wait_cap_seconds",
        "jitter_share",
        "remembered_recipes",
        "waiting_details",
        "wake_gap_seconds",
    ),
    keys=(
        Key(
            name="active_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=3_600,
            about="Between two polls for changes while something runs.",
        ),
        Key(
            name="idle_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=3_600,
            about="The same while nothing runs; how late a start may be noticed.",
        ),
        Key(
            name="reconcile_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="Between two checks of everything that is active, for what polls cannot see.",
        ),
        Key(
            name="relist_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=60,
            maximum=86_400,
            about="Between two lists of all that was created in the last day.",
        ),
        Key(
            name="overlap_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0,
            maximum=86_400,
            about="How far each poll looks behind the one before; covers late commits over there.",
        ),
        Key(
            name="first_look_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0,
            maximum=30 * 86_400,
            about="How far back the very first poll looks; what ended before makes no event.",
        ),
        Key(
            name="requests_per_minute",
            kind=Kind.NUMBER,
            unit="requests a minute",
            minimum=1,
            maximum=60_000,
            target=WorkspaceSettings,
            about="The budget of all requests; the workspace's own limits can only lower it.",
        ),
        Key(
            name="names_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="Between two readings of the names of flows and plans.",
        ),
        Key(
            name="schedules_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="Between two readings of the schedules; a missed start is told after the next.",
        ),
        Key(
            name="progress_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=86_400,
            about="An active job group's progress is read at most so often, budget permitting.",
        ),
        Key(
            name="ranfor",
            kind=Kind.TEXTS,
            check=checks.not_empty,
            about="What job groups are followed for, in the workspace's words; others are counted.",
        ),
        Key(
            name="follow",
            kind=Kind.TEXTS,
            check=checks.followed_runs,
            about='Single runs to follow by id, as "job_group/123"; needed where none are listed.',
        ),
    ),
)

INVENTORY = Section(
    path="workspaces.inventory",
    target=InventorySettings,
    about="What is read beyond runs, slowly, behind all else, and only where it is offered.",
    fixed=("connections_at_once", "outputs", "profiles_at_once", "settings"),
    keys=(
        Key(
            name="interval_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=300,
            maximum=86_400,
            about="Between two readings of each of the following.",
        ),
        Key(
            name="objects",
            kind=Kind.BOOLEAN,
            about="How many flows, plans, datasets and so on there are: dataprep_objects.",
        ),
        Key(
            name="connections",
            kind=Kind.BOOLEAN,
            about="Whether connections can be opened: dataprep_connection_up, and an event for "
            "each change. Each look opens them, which may wake and cost what lies behind.",
        ),
        Key(
            name="tokens",
            kind=Kind.BOOLEAN,
            about="When access tokens expire: dataprep_token_expiry_timestamp_seconds.",
        ),
        Key(
            name="schedules",
            kind=Kind.BOOLEAN,
            about="An event when a schedule is enabled or disabled; schedules are read anyway.",
        ),
        Key(
            name="configuration",
            kind=Kind.BOOLEAN,
            about="An event for each change of the workspace's own settings, secrets masked.",
        ),
        Key(
            name="usage",
            kind=Kind.BOOLEAN,
            about="What was used in this month, as the workspace tells it: dataprep_usage.",
        ),
        Key(
            name="profiles",
            kind=Kind.BOOLEAN,
            about="Valid, mismatched and missing values of profiled outputs: "
            "dataprep_output_values_ratio.",
        ),
    ),
)

CALLBACKS = Section(
    path="workspaces.callbacks",
    target=CallbackSettings,
    is_optional=True,
    about="Callbacks of this workspace; without the table none is accepted. Needs [callbacks].",
    fixed=(),
    keys=(
        Key(
            name="public_url",
            kind=Kind.TEXT,
            check=checks.public_url,
            example="https://monitor.example.com",
            about="How the workspace reaches [callbacks]. Without it no webhook task is created.",
        ),
        Key(
            name="flows",
            kind=Kind.TEXTS,
            check=checks.no_empty_text,
            about='Flows that get a webhook task of ours: ids, names, or "*" for all.',
        ),
        Key(
            name="secret",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-callback-secret",
            about="What callbacks must carry. 16 characters or more: openssl rand -hex 32.",
        ),
        Key(
            name="signature",
            kind=Kind.TEXT,
            choices=tuple(SignatureMode),
            about="A wrong signature is ignored (off), counted (observe) or refused (require).",
        ),
        Key(
            name="signing_secret",
            kind=Kind.SECRET,
            example="dataprep-signing-secret",
            about="The key that webhook tasks sign with; without it nothing is verified.",
        ),
        Key(
            name="detail_wait_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0,
            maximum=60,
            target=PollSettings,
            about="How long an end may wait for its job records; 0 tells it at once, without.",
        ),
        Key(
            name="inbox_bound",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=10_000_000,
            about="Callbacks that may wait for their runs to be confirmed; more are answered 503.",
        ),
        Key(
            name="give_up_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=60,
            maximum=7 * 86_400,
            about="After which a callback whose run was never confirmed is dropped.",
        ),
        Key(
            name="verify_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=30,
            maximum=86_400,
            about="Between two checks that our webhook tasks still exist.",
        ),
        Key(
            name="miss_after_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=86_400,
            about="After which a callback that should have come counts as missed.",
        ),
    ),
)
