"""``explain`` and ``replay``: why somebody was told nothing, and telling it again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import completing, daemon_client
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName
from monitor.model.runs import PipelineKind, RunKind

_COLUMNS = ("stage", "outcome", "at", "rule", "output", "detail")
_REPLAY_SECONDS = 3_600.0  # as much as a month of events may take a slow receiver
_KEY_PARTS = 3  # workspace:kind:id


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FINGERPRINT|KIND ID",
            help="An alert by its fingerprint; a run, flow or plan by kind and id.",
            autocompletion=completing.explained,
        ),
    ],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    as_json: AsJson = False,
) -> None:
    """Say why an alert came, or why none came for a run: the step that swallowed it.

    A flow or plan is asked for where no run came at all: what each rule says of it now.
    """
    answer = daemon_client.ask(_explained(config, words, workspace))
    if as_json:
        from monitor.cli.tables import print_json  # noqa: PLC0415 - help must answer fast

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
            autocompletion=completing.outputs,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Send recorded events to one output again, under the ids that they had.

    Its position stays where it is; a subscriber that knows the ids takes nothing twice.
    """
    body = {"output": to, "since": daemon_client.since(since).isoformat()}
    replaying = daemon_client.post(config, "/api/v1/replay", body, timeout_seconds=_REPLAY_SECONDS)
    answer = daemon_client.ask(replaying)
    daemon_client.show([answer], tuple(answer), as_json=as_json)


async def _explained(config: Path, words: list[str], workspace: str | None) -> Any:
    return await daemon_client.get(
        config, "/api/v1/explain", await _question(config, words, workspace=workspace)
    )


async def _question(
    config: Path, words: list[str], *, workspace: str | None
) -> dict[str, str | None]:
    first, kinds = words[0], [*RunKind, *PipelineKind]
    if len(words) == 1 and first in kinds:
        raise typer.BadParameter(f"{first} is named without an id; write explain {first} 11")
    if len(words) == 1 and ":" not in first:
        # As it stands in topics too: RULE/FINGERPRINT.
        return {"alert": first.rpartition("/")[2]}
    if len(words) == 1 and len(parts := first.split(":", 2)) == _KEY_PARTS:
        return {"run": "/".join(parts)}
    if len(words) != 2 or first not in kinds:  # noqa: PLR2004 - kind and id
        told = ", ".join(kinds)
        raise typer.BadParameter(f"name an alert's fingerprint, or one of {told} and an id")
    name = "run" if first in list(RunKind) else "pipeline"
    return {name: f"{await daemon_client.workspace_of(config, workspace)}/{first}/{words[1]}"}
