"""Node-RED as a process, with the published flow in its leanest and fastest shape.

``http in`` leads to ``mqtt out`` and, beside it, to ``http response``; no change or function node
stands between, nothing is checked. Its settings are those that it comes with, save for two that
help it: the broker keeps its session (a fixed client id, no clean session), and a lost broker is
retried each second, as ours does at first, not each 15. A flow that answers from a ``complete``
node, once the broker has acknowledged, is not used: while the broker is away it answers no caller.

Node-RED is optional: the program that ``NODE_RED`` names, or ``node-red`` on the path.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.bench.processes import START_SECONDS, Served, ended
from tests.servers import free_port

TOPIC = "hooks/acme"
_CHECK_SECONDS = 0.2


def node_red_program() -> str | None:
    """Return where the program is; say so where it is nowhere."""
    program = shutil.which(os.environ.get("NODE_RED", "node-red"))
    if program is None:
        sys.stdout.write("Node-RED is not here (NODE_RED, or node-red on the path).\n")
    return program


@contextlib.asynccontextmanager
async def serving_node_red(program: str, folder: Path, broker_port: int) -> AsyncIterator[Served]:
    """Run Node-RED with the flow, and yield it once it is connected to the broker."""
    port = free_port()
    log = _write_flow(folder, broker_port)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(program, "--userDir", str(folder), "--port", str(port), "--no-telemetry"),
            *("-D", "uiHost=127.0.0.1", "-D", "mqttReconnectTime=1000", "flows.json"),
            stdout=out,
            stderr=out,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not _is_connected(log):
            if process.returncode is not None or time.monotonic() > end:
                raise RuntimeError(f"Node-RED did not start:\n{log.read_text()}")
            await asyncio.sleep(_CHECK_SECONDS)
        yield Served(port=port, process_id=process.pid)
    finally:
        await ended(process)


def _is_connected(log: Path) -> bool:
    text = log.read_text()
    return "Server now running at" in text and "Connected to broker" in text


def _write_flow(folder: Path, broker_port: int) -> Path:
    """Write the flow into a new folder, and return where the log belongs."""
    folder.mkdir()
    flow: list[dict[str, object]] = [
        {"id": "tab", "type": "tab", "label": "callbacks"},
        {
            "id": "broker",
            "type": "mqtt-broker",
            "broker": "127.0.0.1",
            "port": broker_port,
            "clientid": "node-red",
            "cleansession": False,
            "protocolVersion": "4",
            "keepalive": 60,
        },
        {
            "id": "in",
            "type": "http in",
            "z": "tab",
            "url": "/hooks/acme",
            "method": "post",
            "wires": [["answer", "out"]],
        },
        {"id": "answer", "type": "http response", "z": "tab", "statusCode": "204", "wires": []},
        {
            "id": "out",
            "type": "mqtt out",
            "z": "tab",
            "broker": "broker",
            "topic": TOPIC,
            "qos": "1",
            "retain": "false",
            "wires": [],
        },
    ]
    (folder / "flows.json").write_text(json.dumps(flow))
    return folder / "log"
