"""``explain``: why people were notified, or not; ``replay``: recorded events sent again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.cli import completers, daemon_client, lazy, time_options
from monitor.cli.options import DaemonOptions, OutputOptions, WorkspaceName
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_json, print_remark, print_rows
from monitor.model.outside import LONGEST_ERROR, harmless
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.suggestions import did_you_mean
from monitor.model.words import counted

_COLUMNS = (
    Column("stage", "stage"),
    Column("outcome", "outcome", Form.STATE),
    Column("at", "at", Form.INSTANT),
    Column("rule", "rule"),
    Column("subject", "about"),
    Column("output", "output", Form.COPIED),
    Column("fingerprint", "fingerprint", Form.COPIED, is_wide=True),
    Column("event_id", "event", Form.COPIED, is_wide=True),
    Column("detail", "detail", Form.TEXT),
)
_QUIET = ("condition not met", "no matching rule")  # outcomes of rules that did nothing
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
    *,
    workspace: WorkspaceName = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Explain why an alert fired, or why none did for a run.

    Shows the step that ended it. Name a flow or plan where no run came at all: it shows what each
    rule says of it now. Where a name fits several, name the kind too: flow 11, plan "month end".
    """
    form, query = output.form, {"name": _name(words), "workspace": workspace}
    answer = daemon_client.get(daemon, "/api/v1/explain", query)
    if not isinstance(answer, dict) or "steps" not in answer:
        raise lazy.admin.stranger()
    if form is OutputForm.JSON:
        print_json(answer)
        return
    if form is not OutputForm.CSV:
        sys.stdout.write(f"{harmless(answer['answer'], longest=LONGEST_ERROR)}\n\n")
    steps = answer["steps"]
    telling = [step for step in steps if step["outcome"] not in _QUIET]
    is_short = form is OutputForm.TABLE and 0 < len(telling) < len(steps)
    print_rows(telling if is_short else steps, _COLUMNS, form, empty="nothing is known of it")
    if is_short:
        print_remark(
            f"{counted(len(steps) - len(telling), 'other step')}: rules that do not apply, or "
            "whose condition is not met; --output wide shows them"
        )


def replay(
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
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Send recorded events to one output again, with their ids.

    Its position stays where it is; a subscriber that knows the ids takes nothing twice.
    """
    form, body = output.form, {"output": to, "since": time_options.since(since).isoformat()}
    answer = daemon_client.post(daemon, "/api/v1/replay", body, timeout_seconds=_REPLAY_SECONDS)
    columns = [Column(name, name.replace("_", " "), Form.COPIED) for name in answer]
    print_rows([answer], columns, form)


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
