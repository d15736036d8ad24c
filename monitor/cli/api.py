"""``api``: any operation of a configured workspace, with its token, its retries and its edition."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from monitor.cli import completing
from monitor.cli.options import CONFIG_FILE, ConfigFile, WorkspaceName
from monitor.model.errors import (
    ConfigurationError,
    MonitorError,
    NotAvailableError,
    RequestRejectedError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceError,
)

if TYPE_CHECKING:
    from monitor.config import Configuration
    from monitor.workspace.calling import Called
    from monitor.workspace.client import WorkspaceClient
    from monitor.workspace.files import Upload
    from monitor.workspace.settings import WorkspaceSettings

_ARGUMENT = "METHOD PATH | OPERATION_ID [ID]"
_LONGEST_LIST_PAGES = 4_000
_ZIP = b"PK\x03\x04"


Words = Annotated[
    list[str],
    typer.Argument(
        metavar=_ARGUMENT,
        help="What to call: `GET /v4/flows/11`, or `getFlow 11`; see `operations`.",
        autocompletion=completing.called,
    ),
]
Query = Annotated[
    list[str] | None,
    typer.Option(
        "-q",
        "--query",
        metavar="NAME=VALUE",
        help="A query parameter; may be repeated.",
        autocompletion=completing.query_names,
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "-d",
        "--data",
        metavar="JSON|@FILE",
        help="The body: JSON, a file of it, @- for stdin; a file that is a ZIP is uploaded.",
    ),
]
EveryPage = Annotated[
    bool, typer.Option("--all", help="Every row of a list, one a line in a JSON array.")
]
OutFile = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the answer there, once whole.")
]
ExecutionId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="A run with the same one is started once; default: a new one."),
]


class Request(NamedTuple):
    """One call as it was typed."""

    called: Called
    query: Mapping[str, list[str]]
    body: Upload | Any
    execution_id: str | None
    out: Path | None


def api(
    words: Words,
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    query: Query = None,
    data: Data = None,
    every_page: EveryPage = False,
    out: OutFile = None,
    execution_id: ExecutionId = None,
) -> None:
    """Call any of the 186 operations of a workspace and print its answer as JSON.

    What the edition does not have is refused before it is sent. A list shows its first page
    unless --all follows the others. Starting a run is safe to repeat with the same --execution-id.
    """
    import asyncio  # noqa: PLC0415 - help must answer fast

    from monitor import logs  # noqa: PLC0415
    from monitor.cli.settings_files import load  # noqa: PLC0415

    called = _resolved(words)
    if called.operation.answers_file and out is None and sys.stdout.isatty():
        raise typer.BadParameter("the answer is a file: say where it goes", param_hint="--out")
    if every_page and data is not None:
        raise typer.BadParameter("follows lists, and they take no body", param_hint="--all")
    request = Request(
        called=called,
        query=_query(query or [], called),
        body=_body(data),
        execution_id=_execution_id(execution_id, called),
        out=out,
    )
    configuration = load(config)
    settings = chosen(configuration, workspace)
    # On a terminal somebody waits, and may see which tries failed and how long the next one rests.
    level = "debug" if sys.stderr.isatty() else "warning"
    redactor = logs.configure(level=level, secrets=configuration.secrets())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    try:
        asyncio.run(_call(settings, request, every_page=every_page))
    except WorkspaceError as exc:
        told = redactor.text(_failure(exc, request))
        line = "".join(item if item.isprintable() else " " for item in told)
        is_ours = isinstance(exc, NotAvailableError | RequestRejectedError)
        if is_ours and exc.status_code is None:
            raise ConfigurationError(line) from exc  # nothing was sent, nor would be next time
        raise MonitorError(line) from exc


def chosen(configuration: Configuration, name: str | None) -> WorkspaceSettings:
    """Return the one workspace that is meant.

    Raises:
        ConfigurationError: there is none of that name, or no name and several workspaces.
    """
    known = {workspace.name: workspace.workspace for workspace in configuration.workspaces}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        names = ", ".join(known) or "none"
        wrong = "which one is meant" if name is None else f"{name!r} is not configured"
        raise ConfigurationError(f"workspace: {wrong}; choose with -w of these: {names}")
    return known[name]


def _resolved(words: Sequence[str]) -> Called:
    from monitor.workspace.calling import resolve  # noqa: PLC0415 - help must answer fast

    try:
        return resolve(words)
    except RequestRejectedError as exc:
        raise typer.BadParameter(str(exc), param_hint=_ARGUMENT) from exc


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
    import json  # noqa: PLC0415 - help must answer fast

    if data is None:
        return None
    text: str | bytes = data
    if data.startswith("@"):
        if (path := Path(data[1:])) != Path("-"):
            content = _content(path)
            if content.startswith(_ZIP):
                from monitor.workspace.files import Upload  # noqa: PLC0415

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


def _execution_id(wanted: str | None, called: Called) -> str | None:
    import uuid  # noqa: PLC0415 - help must answer fast

    from monitor.workspace.requester import STARTS_A_RUN  # noqa: PLC0415

    if called.operation.operation_id in STARTS_A_RUN:
        if wanted is not None and not (wanted.isascii() and wanted.isprintable() and wanted):
            raise typer.BadParameter("no header can carry it", param_hint="--execution-id")
        return wanted or str(uuid.uuid4())
    if wanted is not None:
        known = ", ".join(sorted(STARTS_A_RUN))
        raise typer.BadParameter(f"only {known} take one", param_hint="--execution-id")
    return None


async def _call(settings: WorkspaceSettings, request: Request, *, every_page: bool) -> None:
    import msgspec  # noqa: PLC0415 - help must answer fast
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    from monitor.model.clock import SystemClock  # noqa: PLC0415
    from monitor.workspace.client import WorkspaceClient  # noqa: PLC0415

    # The daemon gives up a list that seems endless sooner than somebody who waits for it.
    patient = msgspec.structs.replace(settings, page_limit=_LONGEST_LIST_PAGES)
    async with WorkspaceClient(
        patient, clock=SystemClock(), registry=CollectorRegistry()
    ) as client:
        await (_follow(client, request) if every_page else _ask(client, request))


async def _follow(client: WorkspaceClient, request: Request) -> None:
    from monitor.cli.api_output import save_rows, write_rows  # noqa: PLC0415 - help must be fast
    from monitor.workspace.priority import Priority  # noqa: PLC0415

    rows = client.operations.rows(
        request.called.operation.operation_id,
        *request.called.values,
        query=request.query,
        priority=Priority.CHANGES,
    )
    await (write_rows(rows) if request.out is None else save_rows(rows, request.out))


async def _ask(client: WorkspaceClient, request: Request) -> None:
    from contextlib import AsyncExitStack  # noqa: PLC0415 - help must answer fast

    from monitor.cli.api_output import progress_bar, write_answer  # noqa: PLC0415
    from monitor.workspace.files import FileReceiver  # noqa: PLC0415
    from monitor.workspace.priority import Priority  # noqa: PLC0415
    from monitor.workspace.requester import EXECUTION_ID  # noqa: PLC0415

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
    told = str(exc)
    if exc.details and exc.details not in told:
        told += f": {exc.details}"
    if isinstance(exc, NotAvailableError) and exc.status_code is not None:
        told += f"; in the catalogue {request.called.operation.offered_by}"
    if isinstance(exc, TryLaterError | UnreadableAnswerError) and request.execution_id is not None:
        told += f"; should it have started, --execution-id {request.execution_id} starts no second"
    return told
