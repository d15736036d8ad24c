"""The settings of the webhook."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, readable
from monitor.outputs.event_selection import event_types, selected_types
from monitor.outputs.settings import OutputRecord, ReceiverSettings, receiver_of, url_problem

_KEY_PREFIX = "whsec_"  # as Standard Webhooks writes a key
_KEY_BYTES = (24, 64)


def signing_key(secret: Secret) -> bytes:
    """Return the bytes that a secret of Standard Webhooks stands for.

    Raises:
        ConfigurationError: it is none. The message does not repeat it.
    """
    least, most = _KEY_BYTES
    form = f"must be {_KEY_PREFIX} and {least} to {most} bytes in base64"
    hint = f"make one with: echo {_KEY_PREFIX}$(openssl rand -base64 32)"
    text = secret.reveal().strip()
    try:
        key = base64.b64decode(text.removeprefix(_KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ConfigurationError(f"{form}; {hint}") from exc
    if not text.startswith(_KEY_PREFIX) or not least <= len(key) <= most:
        raise ConfigurationError(f"{form}; {hint}")
    return key


class WebhookSettings(ReceiverSettings, frozen=True, kw_only=True):
    """Receiver of CloudEvents, signed as Standard Webhooks specifies.

    Without this table, no webhook is called.
    """

    url: Annotated[
        str,
        Setting(
            "URL that events are posted to.", "https://hooks.example.com/dataprep", url_problem
        ),
    ]
    secret: Annotated[
        Secret,
        Setting(
            "Signing secret: echo whsec_$(openssl rand -base64 32).",
            "dataprep-webhook-secret",
            readable(signing_key),
        ),
    ]
    former_secret: Annotated[
        Secret | None,
        Setting(
            "Previous signing secret; signs too while receivers switch to the new one.",
            "dataprep-webhook-former-secret",
            readable(signing_key),
        ),
    ] = None
    events: Annotated[
        tuple[str, ...],
        Setting(
            'Event types to send, as globs with * and ?: "alert.*" or "run.failed"; "!" before one '
            'leaves out, as "!run.detailed".',
            check=event_types,
        ),
    ] = ("alert.*",)
    workers: Annotated[
        int,
        Meta(ge=1, le=100),
        Setting("Maximum number of parallel requests; events of one subject stay in order."),
    ] = 8
    window: int = 32

    def __repr__(self) -> str:
        # Many receivers identify their customers by a secret in the path.
        host = urlsplit(self.url).hostname if url_problem(self.url) is None else None
        return f"WebhookSettings(host={host!r}, events={self.events!r})"


WEBHOOK = OutputRecord(
    section="webhook",
    settings=WebhookSettings,
    output="monitor.outputs.webhook.output:WebhookOutput",
    # Without the path: many receivers identify their customers by a secret in it.
    receivers=lambda settings: [receiver_of(settings.url).partition("/")[0]],
    types=lambda settings: selected_types(settings.events),
)
