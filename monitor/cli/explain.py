"""``explain``: why people were notified, or not; ``replay``: recorded events sent again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import completers, daemon_client, times
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName
from monitor.cli.tables import print_json
from monitor.model.runs import PipelineKind, RunKind

_COLUMNS = ("stage", "outcome", "at", "rule", "subject", "output", "detail")
_REPLAY_SECONDS = 3_600.0  # as much as a month of events may take a slow receiver


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FINGERPRINT|KIND ID",
            help="An alert by its fingerprint; a run, flow or plan by kind and id.",
            autocompletion=completers.explained_kinds,
        ),
    ],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    as_json: AsJson = False,
) -> None:
    """Explain why an alert fired, or why none did for a run.

    Shows the step that ended it. Name a flow or plan where no run came at all: it shows what each
    rule says of it now.
    """
    answer = daemon_client.run_request(_explained(config, words, workspace))
    if as_json:
        print_json(answer)
        return
    sys.stdout.write(f"{answer['answer']}\n\n")
    daemon_client.show(answer["steps"], _COLUMNS, as_json=False)


def replay(
    config: ConfigFile = CONFIG_FILE,
    *,
    since: Annotated[str, typer.Option(help="From when on: ISO 8601 with its zone, or as 2h.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="OUTPUT",
            help="mqtt, webhook or alertmanager:HOST:PORT.",
            autocompletion=completers.outputs,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Send recorded events to one output again, with their ids.

    Its position stays where it is; a subscriber that knows the ids takes nothing twice.
    """
    body = {"output": to, "since": times.since(since).isoformat()}
    replaying = daemon_client.post(config, "/api/v1/replay", body, timeout_seconds=_REPLAY_SECONDS)
    answer = daemon_client.run_request(replaying)
    daemon_client.show([answer], tuple(answer), as_json=as_json)


async def _explained(config: Path, words: list[str], workspace: str | None) -> Any:
    return await daemon_client.get(
        config, "/api/v1/explain", await _query(config, words, workspace=workspace)
    )


async def _query(config: Path, words: list[str], *, workspace: str | None) -> dict[str, str | None]:
    first, kinds = words[0], [*RunKind, *PipelineKind]
    if len(words) == 1:
        if first in kinds:
            raise typer.BadParameter(f"{first} is named without an id; write explain {first} 11")
        if ":" not in first:
            # Also as topics have it: RULE/FINGERPRINT.
            return {"alert": first.rpartition("/")[2]}
        if first.count(":") >= 2:  # noqa: PLR2004 - workspace:kind:id
            return {"run": first.replace(":", "/", 2)}
    if len(words) != 2 or first not in kinds:  # noqa: PLR2004 - kind and id
        names = ", ".join(kinds)
        raise typer.BadParameter(f"name an alert's fingerprint, or one of {names} and an id")
    name = "run" if first in list(RunKind) else "pipeline"
    return {name: f"{await daemon_client.workspace_of(config, workspace)}/{first}/{words[1]}"}
