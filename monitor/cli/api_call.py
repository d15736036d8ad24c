"""Runs ``api``: checks a call as it was typed, sends it, and writes the answer."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import typer
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.cli.api_output import progress_bar, save_rows, write_answer, write_rows
from monitor.cli.settings_files import load
from monitor.config import Configuration
from monitor.config.environment import PREFIX
from monitor.model.clock import SystemClock
from monitor.model.errors import (
    ConfigurationError,
    MonitorError,
    NotAvailableError,
    RequestRejectedError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.workspace.calling import Called, resolve
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.files import FileReceiver, Upload
from monitor.workspace.priority import Priority
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.transport import EXECUTION_ID, STARTS_A_RUN

_LONGEST_LIST_PAGES = 4_000
_ZIP = b"PK\x03\x04"


class Request(NamedTuple):
    """One call as it was typed."""

    called: Called
    query: Mapping[str, list[str]]
    body: Upload | Any
    execution_id: str | None
    out: Path | None
    every_page: bool


def parse(
    words: Sequence[str],
    *,
    words_hint: str,
    query: Sequence[str],
    data: str | None,
    execution_id: str | None,
    out: Path | None,
    every_page: bool,
) -> Request:
    """Return the call that was typed; ``words_hint`` is what usage calls the words.

    Raises:
        typer.BadParameter: an argument or option cannot be meant so.
    """
    called = _resolved(words, words_hint)
    if called.operation.answers_file and out is None and sys.stdout.isatty():
        raise typer.BadParameter("the answer is a file: say where it goes", param_hint="--out")
    if every_page and data is not None:
        raise typer.BadParameter("follows lists, and they take no body", param_hint="--all")
    return Request(
        called=called,
        query=_query(query, called),
        body=_body(data),
        execution_id=_execution_id(execution_id, called),
        out=out,
        every_page=every_page,
    )


def call(request: Request, config: Path, *, workspace: str | None) -> None:
    """Send a call to a configured workspace and write its answer.

    Raises:
        ConfigurationError: nothing was sent, and the same call would not be sent next time.
        MonitorError: the workspace refused or failed.
    """
    configuration = load(config)
    settings = chosen(configuration, workspace)
    if settings.oauth is not None:
        raise ConfigurationError(_only_the_daemon(settings.name))
    # On a terminal a person waits: show which attempts failed and how long the next one waits.
    level = "debug" if sys.stderr.isatty() else "warning"
    redactor = logs.configure(level=level, secrets=configuration.secrets())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    try:
        asyncio.run(_call(settings, request))
    except WorkspaceError as exc:
        text = redactor.text(_failure(exc, request))
        line = "".join(letter if letter.isprintable() else " " for letter in text)
        is_ours = isinstance(exc, NotAvailableError | RequestRejectedError)
        if is_ours and exc.status_code is None:
            raise ConfigurationError(line) from exc  # nothing was sent, nor would be next time
        raise MonitorError(line) from exc


def _only_the_daemon(workspace: str) -> str:
    variable = f"{PREFIX}WORKSPACES__{workspace.upper().replace('-', '_')}__TOKEN"
    return (
        f"workspace {workspace}: its access tokens are refreshed by the daemon, and a refresh of"
        f" this command would make the daemon's pair invalid; give it a token in {variable}"
    )


def chosen(configuration: Configuration, name: str | None) -> WorkspaceSettings:
    """Return the workspace of that name, or the only one.

    Raises:
        ConfigurationError: there is none of that name, or no name and several workspaces.
    """
    known = {workspace.name: workspace.workspace for workspace in configuration.workspaces}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        names = ", ".join(known) or "none"
        problem = "which one is meant" if name is None else f"{name!r} is not configured"
        raise ConfigurationError(f"workspace: {problem}; choose with -w of these: {names}")
    return known[name]


def _resolved(words: Sequence[str], words_hint: str) -> Called:
    try:
        return resolve(words)
    except RequestRejectedError as exc:
        raise typer.BadParameter(str(exc), param_hint=words_hint) from exc


def _query(pairs: Sequence[str], called: Called) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not name or not sign:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="-q")
        query.setdefault(name, []).append(value)
    known = called.operation.query
    unknown = [name for name in query if name.partition("[")[0] not in known]
    if unknown:
        # Sent all the same: a workspace may know more than its published description.
        sys.stderr.write(
            f"warning: {called.operation.operation_id} is not known to take"
            f" {', '.join(unknown)}, only {', '.join(known) or 'nothing'}\n"
        )
    return query


def _body(data: str | None) -> Upload | Any:
    if data is None:
        return None
    text: str | bytes = data
    if data.startswith("@"):
        if (path := Path(data[1:])) != Path("-"):
            content = _content(path)
            if content.startswith(_ZIP):
                return Upload(path=path)
            text = content
        else:
            text = sys.stdin.buffer.read()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise typer.BadParameter(f"is no JSON: {exc}", param_hint="-d") from exc


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
            return start if start == _ZIP else start + file.read()
    except OSError as exc:
        raise typer.BadParameter(f"{path}: {exc.strerror}", param_hint="-d") from exc


def _execution_id(given: str | None, called: Called) -> str | None:
    if called.operation.operation_id in STARTS_A_RUN:
        if given is not None and not (given.isascii() and given.isprintable() and given):
            raise typer.BadParameter("no header can carry it", param_hint="--execution-id")
        return given or str(uuid.uuid4())
    if given is not None:
        known = ", ".join(sorted(STARTS_A_RUN))
        raise typer.BadParameter(f"only {known} take one", param_hint="--execution-id")
    return None


async def _call(settings: WorkspaceSettings, request: Request) -> None:
    # The daemon gives up an endless list sooner than a user who waits for it.
    patient = msgspec.structs.replace(settings, page_limit=_LONGEST_LIST_PAGES)
    async with WorkspaceClient(
        patient, clock=SystemClock(), registry=CollectorRegistry()
    ) as client:
        await (_read_all_pages(client, request) if request.every_page else _send(client, request))


async def _read_all_pages(client: WorkspaceClient, request: Request) -> None:
    rows = client.operations.rows(
        request.called.operation.operation_id,
        *request.called.values,
        query=request.query,
        priority=Priority.CHANGES,
    )
    await (write_rows(rows) if request.out is None else save_rows(rows, request.out))


async def _send(client: WorkspaceClient, request: Request) -> None:
    operation, out = request.called.operation, request.out
    async with AsyncExitStack() as stack:
        receiver = None
        if out is not None:
            show = stack.enter_context(progress_bar(out.name, unit="bytes"))
            receiver = await stack.enter_async_context(FileReceiver(out, on_progress=show))
        answer = await client.requester.request(
            operation.operation_id,
            *request.called.values,
            query=request.query,
            body=request.body,
            headers={EXECUTION_ID: request.execution_id} if request.execution_id else None,
            receiver=receiver,
            priority=Priority.CHANGES,
        )
    if receiver is not None and not receiver.is_begun:
        sys.stderr.write(f"answered {answer.status_code} without a body: {out} is not written\n")
    write_answer(answer, operation)


def _failure(exc: WorkspaceError, request: Request) -> str:
    text = str(exc)
    if exc.details and exc.details not in text:
        text += f": {exc.details}"
    if isinstance(exc, NotAvailableError) and exc.status_code is not None:
        text += f"; in the catalogue {request.called.operation.editions_text}"
    if isinstance(exc, TryLaterError | UnreadableAnswerError) and request.execution_id is not None:
        text += f"; should it have started, --execution-id {request.execution_id} starts no second"
    return text
