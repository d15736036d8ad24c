"""``sandbox``: a workspace to try things on, alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from monitor.catalogue.operations import Edition
from monitor.cli import completers, lazy
from monitor.cli.daemon_address import secret_of_file
from monitor.cli.option_groups import OptionGroup
from monitor.cli.options import AsJson
from monitor.model.errors import ConfigurationError
from monitor.sandbox.settings import OAuthSettings

SpeedOption = Annotated[
    float, typer.Option(min=0.01, max=10_000, help="How many times faster work goes.")
]
SeedOption = Annotated[int, typer.Option(help="The same seed makes the same world.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Nothing starts by itself: no schedule, no caller.")
]
FlowsOption = Annotated[
    int | None, typer.Option(min=1, max=10_000, help="How many flows there are.")
]
EditionOption = Annotated[Edition, typer.Option(help="Which set of operations is offered.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthOptions(OptionGroup):
    """Whether access tokens are refreshed, and how long they live."""

    oauth: Annotated[
        bool, typer.Option("--oauth", help="Accept only access tokens that are refreshed.")
    ] = False
    access_token_seconds: Annotated[
        int, typer.Option(min=1, max=86_400, help="With --oauth: life of an access token.")
    ] = 3_600
    refresh_token_seconds: Annotated[
        int,
        typer.Option(
            min=1,
            max=365 * 86_400,
            help="With --oauth: how long the pair can be refreshed.",
        ),
    ] = 365 * 86_400
    client_secret: Annotated[
        str | None, typer.Option(help="With --oauth: the client's secret; default: none.")
    ] = None

    def settings(self) -> OAuthSettings | None:
        """Return what is chosen; None without ``--oauth``."""
        if not self.oauth:
            return None
        return OAuthSettings(
            access_token_seconds=self.access_token_seconds,
            refresh_token_seconds=self.refresh_token_seconds,
            client_secret=self.client_secret,
        )


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 0,
    *,
    edition: EditionOption = Edition.RL,
    speed: SpeedOption = 1.0,
    seed: SeedOption = 1,
    token: Annotated[str | None, typer.Option(help="The administrator's access token.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File that holds it, so that no list of processes shows it.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="What goes wrong, such as latency=0.2,status_500=0.05; may be repeated.",
            autocompletion=completers.faults,
        ),
    ] = None,
    quiet: QuietOption = False,
    flows: FlowsOption = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Give it a past of ended runs, such as 7d or 12h."),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print every person's role and access token.")
    ] = False,
    oauth: OAuthOptions,
    show_faults: Annotated[
        bool, typer.Option("--faults", help="Print what can go wrong, and start nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a workspace in which flows, plans and schedules run.

    It listens on this machine only. Prints its URL and an access token; --tokens prints those of
    all its people, who see different things. Everything lives in memory and ends with the command.
    With --history it has a past: runs at the times of their schedules, in which each recipe takes
    as long as it usually does; a run that is not over goes on. Its faults happen by chance, and the
    seed decides the chance; --faults lists them. With --oauth it prints the address of its token
    endpoint, the client's id and the first refresh token, which the first refresh replaces.
    """
    if show_faults:
        lazy.sandbox_faults.print_table(as_json=as_json)
        return
    lazy.sandbox_process.run(
        port,
        edition=edition,
        speed=speed,
        seed=seed,
        token=_chosen_token(token, token_file, oauth),
        faults=fault or (),
        is_quiet=quiet,
        flows=flows,
        history=history,
        shows_people=tokens,
        oauth=oauth.settings(),
        as_json=as_json,
    )


def _chosen_token(token: str | None, path: Path | None, oauth: OAuthOptions) -> str | None:
    if oauth.oauth and (token is not None or path is not None):
        raise typer.BadParameter("with --oauth no access token can be chosen")
    problems: list[str] = []
    secret = secret_of_file("--token-file", path, problems)
    if problems:
        raise ConfigurationError(problems)
    return token if secret is None else secret.reveal()
