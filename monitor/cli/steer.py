"""``runs``, ``events``, ``track``, ``webhooks``: look at and steer a running daemon."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import completing, daemon_client
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName
from monitor.model.runs import RunKind, Status

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]


def runs(
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    kind: Annotated[RunKind | None, typer.Option(help="Only this kind.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List runs that the daemon knows, the newest first."""
    query = {"limit": str(limit), "workspace": workspace, "kind": kind, "status": status}
    answer = daemon_client.ask(daemon_client.get(config, "/api/v1/runs", query))
    columns = ("workspace", "kind", "id", "status", "pipeline", "created_at", "finished_at")
    daemon_client.show(answer["data"], columns, as_json=as_json)


def events(
    config: ConfigFile = CONFIG_FILE,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    since: Annotated[
        str | None,
        typer.Option(help="ISO 8601 instant with its zone, or as 2h; default: the last 100."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print events, one a line, as the log of the daemon has them."""
    since = None if since is None else daemon_client.since(since).isoformat()
    try:
        asyncio.run(_print_events(config, follow=follow, since=since, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def track(
    kind: Annotated[RunKind, typer.Argument(help="What kind of run it is.")],
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Its id in the workspace.")],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
) -> None:
    """Follow one run by its id, also where the workspace lists none."""
    body = {"kind": kind.value, "id": run_id, "workspace": workspace}
    sys.stdout.write(
        f"{daemon_client.ask(daemon_client.post(config, '/api/v1/track', body))['detail']}\n"
    )


def webhooks(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|sync|test|delete", help="What to do.", autocompletion=completing.actions
        ),
    ],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    flow: Annotated[str | None, typer.Option(help="Only the task of this flow, by id.")] = None,
    as_json: AsJson = False,
) -> None:
    """List, synchronise, test or delete the webhook tasks that the daemon registered."""
    if action not in ("list", "sync", "test", "delete"):
        raise typer.BadParameter(f"{action!r} is none of list, sync, test, delete")
    body = {"action": action, "workspace": workspace, "flow": flow}
    if action == "list":
        answer = daemon_client.ask(
            daemon_client.get(config, "/api/v1/webhooks", {"workspace": workspace})
        )
    else:
        answer = daemon_client.ask(daemon_client.post(config, "/api/v1/webhooks", body))
    tested = ("workspace", "ok", "status_code", "error")
    columns = tested if action == "test" else ("workspace", "flow", "flow_id", "state", "reason")
    daemon_client.show(answer["data"], columns, as_json=as_json)
    if action == "test" and not all(row["ok"] for row in answer["data"]):
        raise typer.Exit(1)


async def _print_events(config: Path, *, follow: bool, since: str | None, as_json: bool) -> None:
    import json  # noqa: PLC0415 - help must answer fast

    from monitor.cli.admin import AdminClient  # noqa: PLC0415

    def write(event: dict[str, Any]) -> None:
        sys.stdout.write((json.dumps(event) if as_json else event_line(event)) + "\n")
        sys.stdout.flush()

    async with AdminClient.of(config) as client:
        position = None
        if since is not None or not follow:
            position = await _print_past(client, since, write)
        if follow:
            async for event in client.events(position):
                write(event)


async def _print_past(client: Any, since: str | None, write: Any) -> int:
    query = {"limit": "1000"}
    if since is not None:
        query["since"] = since
    else:
        query["last"] = "100"
    while True:
        page = await client.get("/api/v1/events", query)
        for recorded in page["data"]:
            write(recorded["event"])
        if len(page["data"]) < int(query["limit"]) or "last" in query:
            return int(page["next"])
        query = {"limit": "1000", "after": str(page["next"])}


def event_line(event: dict[str, Any]) -> str:
    """Return an event as one line for people."""
    at = event.get("occurred_at") or event["recorded_at"]
    if event["form"] == "run":
        run = event["run"]
        pipeline = (run.get("pipeline") or {}).get("name") or "unknown"
        key = run["key"]
        told = f"{key['workspace']} {key['kind']} {key['id']} {pipeline!r}"
        error = run.get("error")
        return f"{at} {event['type']} {told}" + (f": {error}" if error else "")
    if event["form"] == "alert":
        alert = event["alert"]
        told = f"{alert['workspace']} {alert['name']} {alert['fingerprint']}"
        summary = alert["annotations"].get("summary")
        return f"{at} {event['type']} {told}" + (f": {summary}" if summary else "")
    return f"{at} {event['type']} {event['workspace']} {event['what']}: {event['after']}"
