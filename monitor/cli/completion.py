"""``completion``: what a shell needs in order to complete this command."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

_NAME = "dataprep-monitor"
_VARIABLE = "_DATAPREP_MONITOR_COMPLETE"


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Which shell reads it.")],
) -> None:
    """Print the script that lets a shell complete commands, operations, paths and parameters.

    Let ~/.bashrc or ~/.zshrc source the file that it is kept in; fish reads its own folder. The
    option --install-completion does all that for the shell that it finds itself in.
    """
    # What the library prints for --show-completion, for a shell that need not be this one.
    from typer.completion import get_completion_script  # type: ignore[attr-defined] # noqa: PLC0415 - help must answer fast; it is typed, and only not exported

    script = get_completion_script(prog_name=_NAME, complete_var=_VARIABLE, shell=shell.value)
    sys.stdout.write(script.strip() + "\n")
