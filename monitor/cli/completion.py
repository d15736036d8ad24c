"""``completion``: what a shell needs in order to complete this command."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # not exported

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
    """Print the completion script of a shell.

    It completes commands, operations, paths and parameters. Save it to a file that ~/.bashrc or
    ~/.zshrc sources; fish reads its own folder. The option --install-completion does all that for
    the shell in which it runs.
    """
    # The same script as --show-completion prints, also for another shell than this one.
    script = get_completion_script(prog_name=_NAME, complete_var=_VARIABLE, shell=shell.value)
    sys.stdout.write(script.strip() + "\n")
