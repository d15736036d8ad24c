"""Makes entries ``[[access]]`` with new tokens, and lists those of a configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from monitor.cli import time_options
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.settings_files import load
from monitor.cli.tables import print_json, print_rows
from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean
from monitor.web.access.token_hashes import hash_of, new_token
from monitor.web.principals import Role
from monitor.web.settings import name_problem

_LISTED = (
    Column("name", "name", Form.COPIED),
    Column("role", "role"),
    Column("known_by", "known by", Form.TEXT),
    Column("workspaces", "workspaces", Form.TEXT),
    Column("expires_at", "expires", Form.INSTANT),
)
_NONE = "no [[access]] is configured; make one with: dataprep-monitor access add NAME --role ROLE"


def add_entry(
    name: str, *, role: str, globs: Sequence[str], expires_in: str | None, form: OutputForm
) -> None:
    """Print a new token, and the entry that lets its holder in.

    Args:
        name: of the person or program.
        role: what the holder may do.
        globs: of the workspaces that the holder sees; empty for all.
        expires_in: such as 90d; None for never.
        form: of what is printed.

    Raises:
        ConfigurationError: with one sentence for each problem of the options.
    """
    problems: list[str] = []
    if (problem := name_problem(name)) is not None:
        problems.append(f"NAME: {name[:40]!r}: {problem}")
    if role not in list(Role):
        known = ", ".join(Role)
        problems.append(f"--role: {role[:40]!r} is none of {known}{did_you_mean(role, list(Role))}")
    if "" in globs:
        problems.append("--workspace: '' fits no name; write a name or a glob, such as 'finance*'")
    if problems:
        raise ConfigurationError(problems)
    token = new_token(name)
    entry: dict[str, Any] = {"name": name, "role": role, "token_hash": hash_of(token)}
    if globs:
        entry["workspaces"] = list(globs)
    if expires_in is not None:
        entry["expires_at"] = _end("--expires-in", expires_in)
    if form is OutputForm.JSON:
        print_json({"token": token, "entry": entry})
        return
    lines = [
        "The token, which is shown this once:",
        f"  {token}",
        "Add to the configuration, and reload the daemon (SIGHUP):",
        "  [[access]]",
        *(f"  {key} = {_toml(value)}" for key, value in entry.items()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def list_entries(config: Path, *, form: OutputForm) -> None:
    """Print who may reach the daemon of a configuration."""
    server, now = load(config).server, datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    if server.token is not None:
        rows.append(_row("token", Role.ADMIN, ["token of [server]"]))
    if server.password is not None:
        rows.append(_row(server.username or "", Role.ADMIN, ["password of [server]"]))
    for entry in server.access:
        ways = [f"{len(entry.token_hash)} tokens" if len(entry.token_hash) > 1 else "token"] * bool(
            entry.token_hash
        )
        ways += [f"user {user}" for user in entry.users]
        ways += [f"group {group}" for group in entry.groups]
        is_over = entry.expires_at is not None and entry.expires_at <= now
        rows.append(
            _row(
                entry.name,
                entry.role,
                ways,
                globs=entry.workspaces,
                expires_at=entry.expires_at,
                is_over=is_over,
            )
        )
    print_rows(rows, _LISTED, form, empty=_NONE)


def _row(
    name: str,
    role: Role,
    ways: list[str],
    *,
    globs: Sequence[str] = (),
    expires_at: datetime | None = None,
    is_over: bool = False,
) -> dict[str, Any]:
    return {
        "name": name,
        "role": str(role),
        "known_by": ", ".join(ways) + (" (expired)" if is_over else ""),
        "workspaces": ", ".join(globs) or "all",
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }


def _end(option: str, text: str) -> datetime:
    seconds = time_options.seconds(option, text)
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
    except OverflowError as exc:
        raise ConfigurationError(f"{option}: {text[:40]!r} ends after the year 9999") from exc


def _toml(value: str | list[str] | datetime) -> str:
    # What JSON escapes, TOML escapes alike; an instant stands bare.
    return value.isoformat() if isinstance(value, datetime) else json.dumps(value)
