"""``api``: any operation of a configured workspace, with its token, its retries and its edition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import lazy, operation_completers
from monitor.cli.options import CONFIG_FILE, ConfigFile, WorkspaceName

_ARGUMENT = "METHOD PATH | OPERATION_ID [ID]"

Words = Annotated[
    list[str],
    typer.Argument(
        metavar=_ARGUMENT,
        help="What to call: `GET /v4/flows/11`, or `getFlow 11`; see `operations`.",
        autocompletion=operation_completers.operation_words,
    ),
]
Query = Annotated[
    list[str] | None,
    typer.Option(
        "-q",
        "--query",
        metavar="NAME=VALUE",
        help="A query parameter; may be repeated.",
        autocompletion=operation_completers.query_names,
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
    """Call any of the 186 operations and print its answer as JSON.

    What the edition does not have is refused before it is sent. A list shows its first page
    unless --all follows the others. Starting a run is safe to repeat with the same --execution-id.
    """
    request = lazy.api_call.parse(
        words,
        words_hint=_ARGUMENT,
        query=query or [],
        data=data,
        execution_id=execution_id,
        out=out,
        every_page=every_page,
    )
    lazy.api_call.call(request, config, workspace=workspace)
