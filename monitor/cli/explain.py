"""``explain``: why people were notified, or not; ``replay``: recorded events sent again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.cli import completers, daemon_client, times
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName
from monitor.cli.tables import print_json
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.suggestions import did_you_mean

_COLUMNS = ("stage", "outcome", "at", "rule", "subject", "output", "detail")
_REPLAY_SECONDS = 3_600.0  # as much as a month of events may take a slow receiver


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FINGERPRINT|NAME|KIND ID",
            help="An alert by its fingerprint; a run by kind and id; a flow or plan by name or id.",
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
    rule says of it now. Where a name fits several, name the kind too: flow 11, plan "month end".
    """
    query = {"name": _name(words), "workspace": workspace}
    answer = daemon_client.run_request(daemon_client.get(config, "/api/v1/explain", query))
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


def _name(words: list[str]) -> str:
    """Return what is named as one text, which the daemon looks up."""
    first, kinds = words[0], [*RunKind, *PipelineKind]
    if len(words) == 1:
        if first in kinds:
            raise typer.BadParameter(f"{first} is named without an id; write explain {first} 11")
        return first
    if len(words) != 2 or first not in kinds:  # noqa: PLR2004 - kind and id
        hint = did_you_mean(first, kinds) if len(words) == 2 else ""  # noqa: PLR2004
        raise typer.BadParameter(
            f"name an alert's fingerprint, a flow or plan by its name in quotes, or one of "
            f"{', '.join(kinds)} and an id{hint}"
        )
    return f"{first}/{words[1]}"
