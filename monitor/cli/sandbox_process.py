"""The sandbox as a process of its own, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta

from monitor import logs
from monitor.catalogue.operations import Edition
from monitor.cli import sandbox_faults, tables, time_options
from monitor.model.clock import SystemClock
from monitor.model.errors import ConfigurationError, MonitorError
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import (
    OAuthSettings,
    SandboxSettings,
    TrafficSettings,
    WorkSettings,
)
from monitor.sandbox.world.records.objects import TokenPair

_MOST_DAYS = 30  # everything in the sandbox was made before


def run(
    port: int,
    *,
    edition: Edition,
    speed: float,
    seed: int,
    token: str | None,
    faults: Sequence[str],
    is_quiet: bool,
    flows: int | None,
    history: str | None,
    shows_people: bool,
    oauth: OAuthSettings | None,
    as_json: bool,
) -> None:
    """Run a sandbox on this port until SIGTERM or SIGINT; 0 takes a free one.

    Raises:
        ConfigurationError: a fault is not known, or ``history`` is no length of time to have.
        MonitorError: the port cannot be listened on.
    """
    options = sandbox_faults.parse(faults)
    history_seconds = _history_seconds(history)
    logs.configure()
    settings = SandboxSettings(
        edition=edition,
        seed=seed,
        token=token,
        options=options,
        work=WorkSettings(speed=speed) if history is None else _regular_work(speed),
        flows=flows,
        traffic=None if is_quiet else TrafficSettings(),
        schedules_fire=not is_quiet,
        oauth=oauth,
    )
    if flows is not None or history is not None:
        past = "" if history is None else f" with {history} of history"
        _say(f"building {_count(flows, 'flow') if flows else 'the usual flows'}{past}")
    sandbox = Sandbox(settings, SystemClock())
    if history_seconds:
        sandbox.live_through(sandbox.world.clock.now() - timedelta(seconds=history_seconds))
    _say(_contents(sandbox))
    asyncio.run(_serve(sandbox, port, shows_people=shows_people, as_json=as_json))


def _say(line: str) -> None:
    """Print on stderr: on stdout stands what programs read."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _contents(sandbox: Sandbox) -> str:
    """Return what there is, in one line."""
    world = sandbox.world
    parts = [
        _count(sum(1 for _ in world.flows.live()), "flow"),
        _count(sum(1 for _ in world.plans.live()), "plan"),
        _count(sum(1 for _ in world.schedules.live()), "schedule"),
    ]
    people = _count(sum(1 for _ in world.people.live()), "person", "people")
    runs = [job_group.created_at for job_group in world.job_groups.live()]
    past = (
        f"; {_count(len(runs), 'job group')} since {min(runs):%Y-%m-%d %H:%M} UTC" if runs else ""
    )
    settings = sandbox.settings
    return f"edition {settings.edition}, seed {settings.seed}: {', '.join(parts)}, {people}{past}"


def _count(number: int, single: str, plural: str = "") -> str:
    return f"{number:,} {single if number == 1 else plural or f'{single}s'}"


def _history_seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    seconds = time_options.seconds("--history", text)
    if seconds > _MOST_DAYS * 86_400:
        raise ConfigurationError(
            f"--history: {text[:40]!r} is too long; at most {_MOST_DAYS}d are possible"
        )
    return seconds


def _regular_work(speed: float) -> WorkSettings:
    """Return how work goes in a workspace with a past, then and now: most of it goes well."""
    return WorkSettings(speed=speed, is_regular=True, failure_factor=0.1, cancel_ratio=0.005)


async def _serve(sandbox: Sandbox, port: int, *, shows_people: bool, as_json: bool) -> None:
    try:
        url = await sandbox.start(port)
    except OSError as exc:
        raise MonitorError(f"port {port} cannot be listened on: {exc.strerror}") from exc
    _print_access(sandbox, url, shows_people=shows_people, as_json=as_json)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        await stop.wait()
    finally:
        await sandbox.stop()


def _print_access(sandbox: Sandbox, url: str, *, shows_people: bool, as_json: bool) -> None:
    # The tokens open a made-up world only, and its user needs them.
    access: dict[str, object] = {"url": url}
    if sandbox.pair is None:
        access["token"] = sandbox.token
    else:
        access |= {"token_url": sandbox.token_url, **_client(sandbox.pair)}
        access["refresh_token"] = sandbox.pair.refresh_token
    people = _people(sandbox) if shows_people else []
    if as_json:
        tables.print_json({**access, "people": people} if shows_people else access)
    else:
        sys.stdout.writelines(f"{name}: {value}\n" for name, value in access.items())
        if shows_people:
            key = "token" if sandbox.pair is None else "refresh_token"
            tables.print_plain(
                ("name", "role", key.replace("_", " ")),
                [(person["name"], person["role"], person[key]) for person in people],
            )
    sys.stdout.flush()


def _client(pair: TokenPair) -> dict[str, str]:
    """Return with what a program presents itself at the token endpoint."""
    secret = {} if pair.client_secret is None else {"client_secret": pair.client_secret}
    return {"client_id": pair.client_id, **secret}


def _people(sandbox: Sandbox) -> list[dict[str, str]]:
    """Return everybody who has a token, with the first one made for them."""
    return [
        {
            "name": person.name,
            "role": "administrator" if person.is_admin else "member",
            "email": person.email,
            **_first_token(sandbox, person.id),
        }
        for person in sandbox.world.people.live()
    ]


def _first_token(sandbox: Sandbox, person_id: int) -> dict[str, str]:
    if sandbox.pair is not None:
        (pair,) = sandbox.world.shelf(TokenPair).having("creator_id", person_id)
        return {"refresh_token": pair.refresh_token}
    return {"token": sandbox.world.tokens.having("creator_id", person_id)[0].value}
