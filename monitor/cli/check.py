"""``check``: is this configuration right?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile

if TYPE_CHECKING:
    from monitor.config import Configuration, ValidationResult


def check(config: ConfigFile = CONFIG_FILE, *, as_json: AsJson = False) -> None:
    """Read the configuration and report every fault at once, each with the way out.

    Reads the secrets and files that it names, and asks neither workspace nor broker.
    """
    from monitor.cli.settings_files import weigh_file  # noqa: PLC0415 - help must answer fast

    result = weigh_file(config)
    if as_json:
        _print_json(result)
    elif result.configuration is None:
        sys.stderr.writelines(f"{problem}\n" for problem in result.problems)
    else:
        sys.stdout.write(f"ok: {'; '.join(summary(result.configuration))}\n")
    if result.configuration is None:
        raise typer.Exit(2)


def summary(configuration: Configuration) -> list[str]:
    """Return what the configuration switches on, in few words each."""
    from monitor.config.checks import joined_address  # noqa: PLC0415 - help must answer fast

    mqtt, callbacks, server = configuration.mqtt, configuration.callbacks, configuration.server
    names = [workspace.name for workspace in configuration.workspaces]
    guarded = " (auth)" if server.has_auth else ""
    return [
        f"{_counted(len(names), 'workspace')} ({', '.join(names)})",
        _alerts(configuration),
        f"mqtt {mqtt.broker}" if mqtt else "mqtt off",
        *_receivers(configuration),
        f"server {joined_address(server.host, server.port)}{guarded}",
        f"callbacks {joined_address(callbacks.host, callbacks.port)}"
        if callbacks
        else "callbacks off",
        f"store {configuration.storage.url}",
    ]


def _alerts(configuration: Configuration) -> str:
    alerting = configuration.alerting
    rules, silences = len(alerting.rules), len(alerting.silences)
    silenced = f" and {_counted(silences, 'silence')}" if silences else ""
    return f"{_counted(rules, 'alert rule')}{silenced}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s'[: count != 1]}"


def _receivers(configuration: Configuration) -> list[str]:
    """Return who else is told, without the paths: those of webhooks are secrets now and then."""
    from monitor.outputs.settings import receiver_of  # noqa: PLC0415 - help must answer fast

    managers, webhook = configuration.alertmanager, configuration.webhook
    found = [f"alertmanager {receiver_of(url)}" for url in (managers.urls if managers else ())]
    if webhook is not None:
        found.append(f"webhook {receiver_of(webhook.url).partition('/')[0]}")
    return found


def _print_json(result: ValidationResult) -> None:
    from monitor.cli.tables import print_json  # noqa: PLC0415 - help must answer fast
    from monitor.config import config_hash  # noqa: PLC0415

    configuration = result.configuration
    print_json(
        {
            "ok": configuration is not None,
            "config_hash": None if configuration is None else config_hash(configuration),
            "summary": [] if configuration is None else summary(configuration),
            "faults": result.problems,
        }
    )
