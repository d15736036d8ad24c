"""The daemon as a process: its settings of the interpreter, its signals, its service manager."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Addresses, Daemon
from monitor.app.tasks import Run
from monitor.cli.first_contact import log_addresses, log_first_contacts
from monitor.cli.gc_tuning import exempt_what_lasts, search_often
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.cli.sighup import SighupReload, following
from monitor.cli.start_failures import address_problems, open_store
from monitor.config import Configuration
from monitor.listening.file_descriptors import raise_descriptor_limit
from monitor.logs import Redactor
from monitor.model.clock import SystemClock
from monitor.model.errors import AddressError, ConfigurationError
from monitor.model.slices import STEP_SECONDS

_SWITCH_SECONDS = 0.0001


def loop_factory(*, may_be_uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the loop of an `asyncio.Runner`."""
    if may_be_uvloop:
        try:
            import uvloop  # noqa: PLC0415 - only the daemon pays for it, and not every platform has it
        except ImportError:
            return asyncio.new_event_loop
        return uvloop.new_event_loop
    return asyncio.new_event_loop


def run(config: Path) -> None:
    """Run the daemon of a configuration file until SIGTERM or SIGINT has drained it.

    Raises:
        MonitorError: it could not start, or its store was lost.
    """
    configuration = load(config)
    redactor = logs.configure(
        level=configuration.log.level,
        form=configuration.log.form,
        secrets=configuration.secrets(),
    )
    raise_descriptor_limit()
    # A thread renders a metrics page for some 25 ms, and a commit gives up the interpreter at
    # every statement: with Python's own 5 ms each of these turns would delay a callback.
    sys.setswitchinterval(_SWITCH_SECONDS)
    exempt_what_lasts()
    try:
        factory = loop_factory(may_be_uvloop=configuration.process.uvloop)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(config, configuration, redactor))
    except AddressError as exc:
        found = address_problems(configuration, clock=SystemClock(), redactor=redactor)
        problems = asyncio.run(found)
        if not problems:  # it has become free meanwhile
            raise
        raise ConfigurationError(problems) from exc


async def _serve(path: Path, configuration: Configuration, redactor: Redactor) -> None:
    clock = SystemClock()
    manager = ServiceManager.of(os.environ, process_id=os.getpid(), clock=clock)
    daemon = Daemon(
        configuration,
        clock=clock,
        registry=CollectorRegistry(),
        open_store=open_store,
        register=redactor.register,
        redact=redactor.value,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if configuration.log.slow_steps:
        name_slow_steps(loop)

    def reloaded(configuration: Configuration) -> None:
        log = configuration.log
        logs.configure(level=log.level, form=log.form, redactor=redactor)
        name_slow_steps(loop, is_on=log.slow_steps)

    sighup = SighupReload(
        daemon,
        path,
        configuration=configuration,
        manager=manager,
        redactor=redactor,
        clock=clock,
        on_reloaded=reloaded,
    )
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    loop.add_signal_handler(signal.SIGHUP, sighup.request)
    beside: dict[str, Run] = {"reload": sighup.run, "gc tuning": partial(search_often, clock)}
    if manager.watches:
        beside["watchdog"] = lambda: manager.feed(daemon.probe)

    def started(addresses: Addresses) -> None:
        manager.started(following(configuration))
        log_addresses(configuration, addresses)

    contact = asyncio.create_task(log_first_contacts(configuration, clock), name="first contact")
    try:
        await daemon.run(stop, on_started=started, on_draining=manager.stopping, beside=beside)
    finally:
        contact.cancel()
        await asyncio.gather(contact, return_exceptions=True)


def name_slow_steps(loop: asyncio.AbstractEventLoop, *, is_on: bool = True) -> None:
    """Log each step that holds the loop for too long, with its task and where that waits next."""
    loop.slow_callback_duration = STEP_SECONDS
    loop.set_debug(enabled=is_on)
