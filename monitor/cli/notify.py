"""``notify``: the channels to people, and a test of them."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, lazy
from monitor.cli.options import CONFIG_FILE, ConfigFile, OutputOptions


def notify(
    action: Annotated[
        str,
        typer.Argument(
            metavar="test|list",
            help="What to do.",
            autocompletion=completers.notify_actions,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Only this channel."),
    ] = None,
    config: ConfigFile = CONFIG_FILE,
    *,
    output: OutputOptions,
) -> None:
    """List the channels to people, or send a marked test through them.

    A test is two messages: an alert that fires, and its end. The daemon need not run.
    Exits 1 when a channel did not take a message.
    """
    if action == "list":
        lazy.channel_tests.list_channels(config, name=name, form=output.form)
    elif action == "test":
        if not lazy.channel_tests.test_channels(config, name=name, form=output.form):
            raise typer.Exit(1)
    else:
        raise typer.BadParameter(f"{action!r} is none of test, list")
