"""Secrets of one flow's webhook task, derived from those of the workspace's callbacks.

Everybody who may read the task sees them, and they open callbacks about that flow alone. Listener
and registrar derive the same, so none of them is stored, and a new secret of callbacks gives each
task a new one.
"""

from __future__ import annotations

import hmac

from monitor.model.secrets import Secret

# What the two are for is part of what they are derived from: neither serves as the other.
_TASK, _SIGNATURE = "callbacks of a task", "signatures of a task"


def task_secret(secret: Secret, *, workspace: str, flow_id: str) -> Secret:
    """Return what the task of this flow sends as its secret."""
    return _derived(secret, _TASK, workspace, flow_id)


def task_signing_secret(secret: Secret, *, workspace: str, flow_id: str) -> Secret:
    """Return the key with which the task of this flow signs."""
    return _derived(secret, _SIGNATURE, workspace, flow_id)


def _derived(secret: Secret, *purpose: str) -> Secret:
    # No name or header holds the separator, so two purposes are never written alike.
    message = "\0".join(purpose).encode(errors="surrogateescape")
    return Secret(hmac.digest(secret.reveal().encode(), message, "sha256").hex())
