"""``run``: the daemon, with the signals that steer it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from monitor.cli.options import CONFIG_FILE, ConfigFile

if TYPE_CHECKING:
    from monitor.config import Configuration
    from monitor.logs import Redactor


def run(config: ConfigFile = CONFIG_FILE) -> None:
    """Run the daemon in the foreground.

    SIGTERM and SIGINT drain and end it; SIGHUP reads the configuration again. A configuration that
    is refused changes nothing and is told in the log and in the metrics.
    """
    import asyncio  # noqa: PLC0415 - help must answer fast

    from monitor import logs  # noqa: PLC0415
    from monitor.cli.settings_files import load  # noqa: PLC0415

    configuration = load(config)
    redactor = logs.configure(
        level=configuration.log.level,
        form=configuration.log.form,
        secrets=configuration.secrets(),
    )
    asyncio.run(_serve(config, configuration, redactor))


async def _serve(path: Path, configuration: Configuration, redactor: Redactor) -> None:
    import asyncio  # noqa: PLC0415 - help must answer fast
    import signal  # noqa: PLC0415

    import structlog  # noqa: PLC0415
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    from monitor.app.daemon import Daemon  # noqa: PLC0415
    from monitor.cli.settings_files import load  # noqa: PLC0415
    from monitor.model.clock import SystemClock  # noqa: PLC0415
    from monitor.model.errors import MonitorError  # noqa: PLC0415

    log = structlog.get_logger()
    daemon = Daemon(configuration, clock=SystemClock(), registry=CollectorRegistry())
    stop, hang_up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hang_up.set)

    async def reload_on_hang_up() -> None:
        while True:
            await hang_up.wait()
            hang_up.clear()
            try:
                wanted = load(path)
                redactor.register(*wanted.secrets())
                await daemon.reload(wanted)
            except MonitorError as exc:
                daemon.refuse_configuration()
                log.error("configuration refused, the former one stays", reason=str(exc))  # noqa: TRY400 - each fault is a sentence, a trace adds nothing

    await daemon.run(stop, beside={"reload": reload_on_hang_up})
