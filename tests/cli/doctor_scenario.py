"""Runs the checks of ``doctor`` in process, on a workspace that a test writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from monitor.alerting.reports.settings import ReportSettings
from monitor.alerting.settings import AlertingSettings
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import ListenerSettings
from monitor.catalogue.operations import Edition, operation
from monitor.cli.doctor_checks.examination import examine
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.checks import CheckLine
from monitor.model.clock import Clock, SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.notify.settings import NotifySettings
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.polling.tiny_workspace import NO_ROUTE, Row, TinyWorkspace

_READS = (
    "listJobLibrary",
    "listFlows",
    "listPlans",
    "listPlanSnapshotRuns",
    "listSchedules",
    "listOutputObjects",
    "getCurrentPerson",
    "listUserDefinedFunctions",
)

_UNPRIVILEGED = 65_534

Report = dict[str, CheckLine]


class EditionWorkspace(TinyWorkspace):
    """A tiny workspace of one edition, with a person, tokens and headers of the test's choice."""

    person: Row
    tokens: list[Row]
    headers: dict[str, str]

    def become(self, edition: Edition) -> None:
        """Serve what the edition serves, to the administrator who owns the token."""
        self.person = {"id": 4, "email": "ada@example.com"}
        self.tokens = []
        self.headers = {}
        for read in _READS:
            if not operation(read).is_part_of(edition):
                self.refuse(read, NO_ROUTE)

    def refuse(self, operation_id: str, fault: tuple[int, str]) -> None:
        self.faults[operation(operation_id).path.removeprefix("/v4/")] = fault

    def put_flow(self, row_id: int, owner_id: int) -> None:
        self.tables["flows"][row_id] = {"id": row_id, "name": "x", "creator": {"id": owner_id}}

    def put_schedule(self, row_id: int) -> None:
        self.tables["schedules"][row_id] = {"id": row_id, "name": "nightly"}

    def _find(self, path: str, query: Mapping[str, str]) -> Any:
        if path == "people/current":
            return self.person
        if path == "apiAccessTokens":
            return {"data": self.tokens}
        return super()._find(path, query)

    def _json(self, body: Any, status: int = 200) -> web.Response:
        response = super()._json(body, status)
        response.headers.update(self.headers)
        return response


def workspace_at(url: str, **settings: Any) -> WorkspaceConfiguration:
    """Return a workspace named acme without retries."""
    chosen = {"token": Secret("a token"), "retries": 0, **settings}
    return WorkspaceConfiguration(workspace=WorkspaceSettings(name="acme", url=url, **chosen))


async def run_checks(
    folder: Path,
    *workspaces: WorkspaceConfiguration,
    clock: Clock | None = None,
    mqtt: MqttSettings | None = None,
    server: ServerSettings | None = None,
    callbacks: ListenerSettings | None = None,
    alertmanager: AlertmanagerSettings | None = None,
    webhook: WebhookSettings | None = None,
    notify: NotifySettings | None = None,
    alerting: AlertingSettings | None = None,
    reports: tuple[ReportSettings, ...] = (),
    store: Path | None = None,
) -> Report:
    """Return every line of ``doctor`` by its subject."""
    outputs = {
        "mqtt": mqtt,
        "alertmanager": alertmanager,
        "webhook": webhook,
        "notify": notify,
    }
    configuration = Configuration(
        workspaces=workspaces,
        alerting=alerting or AlertingSettings(),
        reports=reports,
        outputs={name: output for name, output in outputs.items() if output is not None},
        server=server or ServerSettings(listen="127.0.0.1:0"),
        callbacks=callbacks,
        storage=StorageSettings(url=f"sqlite://{store or folder / 'state.db'}"),
    )
    lines: list[CheckLine] = []
    await examine(
        configuration, folder / "monitor.toml", clock=clock or SystemClock(), report=lines.append
    )
    report = {line.subject: line for line in lines}
    assert len(report) == len(lines), "two lines have the same subject"
    return report


def outcomes(report: Report) -> dict[str, str]:
    return {subject: line.outcome.value for subject, line in report.items()}


@contextlib.asynccontextmanager
async def other_server(status: int, body: object = None) -> AsyncIterator[int]:
    """A foreign server: answers everything with one status and one body."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """Drop root's rights for a while, since root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(_UNPRIVILEGED)
    try:
        yield
    finally:
        os.seteuid(user)
