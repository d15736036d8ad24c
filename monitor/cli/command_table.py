"""The commands: where each one stands, its line in the help, and examples to type."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One command. ``target`` is ``module:function``; it loads when the command is chosen."""

    name: str
    target: str
    help: str  # equal to the first sentence of the function's docstring
    examples: tuple[str, ...]


COMMANDS = (
    CommandEntry(
        "demo",
        "monitor.cli.demo:demo",
        "Run sandbox, broker, daemon and page on this machine.",
        ("demo --for 30", "demo --edition LE --port 0", "demo --oauth --for 30"),
    ),
    CommandEntry(
        "run",
        "monitor.cli.run:run",
        "Run the daemon in the foreground.",
        ("run -c /etc/dataprep-monitor/monitor.toml",),
    ),
    CommandEntry(
        "check",
        "monitor.cli.check:check",
        "Check the configuration and report all its problems.",
        ("check -c config/minimal.toml", "check --json"),
    ),
    CommandEntry(
        "doctor",
        "monitor.cli.doctor:doctor",
        "Test the set-up against the real workspaces and brokers.",
        ("doctor -c /etc/dataprep-monitor/monitor.toml", "doctor -w acme"),
    ),
    CommandEntry(
        "notify",
        "monitor.cli.notify:notify",
        "List the channels to people, test them, or preview their messages.",
        (
            "notify test data-team",
            "notify list -c /etc/dataprep-monitor/monitor.toml",
            "notify preview 9f86d081884c7d65",
        ),
    ),
    CommandEntry(
        "operations",
        "monitor.cli.operations:operations",
        "List the operations of the workspace API and our use of them.",
        ("operations --filter 'flow run'", "operations --edition LE --json"),
    ),
    CommandEntry(
        "api",
        "monitor.cli.api:api",
        "Call any of the 186 operations and print its answer as JSON.",
        (
            "api GET /v4/flows -q flowsFilter=all --all",
            "api getJobGroup 7827359 -q embed=wrangledDataset.flow",
            """api runFlow 11 -d '{"runParameters": {}}'""",
            "api getFlowPackage 11 --out sales.zip",
            "api importPackage -d @sales.zip",
        ),
    ),
    CommandEntry(
        "sandbox",
        "monitor.cli.sandbox:sandbox",
        "Run a workspace in which flows, plans and schedules run.",
        (
            "sandbox --edition open --port 8081",
            "sandbox --speed 60 --fault status_500=0.05",
            "sandbox --quiet --flows 200 --history 7d --tokens",
            "sandbox --oauth --access-token-seconds 300 --json",
        ),
    ),
    CommandEntry(
        "status",
        "monitor.cli.status:status",
        "Print the state of everything in one sentence; exit by it.",
        (
            "status",
            "status --url https://monitor.example.com --token-file ~/.monitor-token",
            "status || echo 'needs attention'",
        ),
    ),
    CommandEntry(
        "pipelines",
        "monitor.cli.pipelines:pipelines",
        "List flows and plans: how each is, its last run, its next start.",
        (
            "pipelines",
            "pipelines --state failing",
            "pipelines -w acme --sort next_start --output wide",
        ),
    ),
    CommandEntry(
        "runs",
        "monitor.cli.runs:runs",
        "List runs that the daemon knows, the newest first.",
        (
            "runs --status failed --since 24h",
            "runs --pipeline 'month end' --limit 0 --output csv",
            "runs -w acme --kind plan_run --json",
        ),
    ),
    CommandEntry(
        "events",
        "monitor.cli.events:events",
        "Print recorded events, one a line, and follow new ones.",
        (
            "events --follow",
            "events --since 7d --type run.failed --pipeline 'month end'",
            "events --since 2026-11-21T10:00:00Z --json",
        ),
    ),
    CommandEntry(
        "alerts",
        "monitor.cli.alerts:alerts",
        "List alerts, or backtest rules on recorded events.",
        (
            "alerts",
            "alerts --state firing -w acme --json",
            "alerts backtest --since 30d -c new.toml",
        ),
    ),
    CommandEntry(
        "report",
        "monitor.cli.report:report",
        "Print what happened in the last night, or in another time.",
        (
            "report",
            "report --since 18:00 -w acme",
            "report --period week --output markdown",
        ),
    ),
    CommandEntry(
        "acknowledge",
        "monitor.cli.acknowledge:acknowledge",
        "Acknowledge an alert: no reminder of it goes out any more.",
        ("acknowledge 9f86d081884c7d65 --for 4h --comment 'I am on it'",),
    ),
    CommandEntry(
        "silence",
        "monitor.cli.silence:silence",
        "Add, list or expire silences.",
        (
            "silence add workspace=acme pipeline='daily*' --for 2h --comment 'planned reload'",
            "silence list",
            "silence expire 5d3c1f2a9b8e7460",
        ),
    ),
    CommandEntry(
        "explain",
        "monitor.cli.explain:explain",
        "Explain why an alert fired, or why none did for a run.",
        (
            "explain 9f86d081884c7d65",
            "explain job_group 7827359 -w acme",
            "explain flow 11",
            "explain 'month end'",
        ),
    ),
    CommandEntry(
        "replay",
        "monitor.cli.explain:replay",
        "Send recorded events to one output again, with their ids.",
        ("replay --since 2h --to webhook", "replay --since 2026-11-21T10:00:00Z --to mqtt"),
    ),
    CommandEntry(
        "dead-letters",
        "monitor.cli.dead_letters:dead_letters",
        "List, show, resend or drop events that an output refused for good.",
        (
            "dead-letters list --limit 200",
            "dead-letters show acme:job_group:7827359:failed",
            "dead-letters --for webhook --output wide",
            "dead-letters resend webhook --all",
            "dead-letters drop mqtt acme:job_group:7827359:failed",
        ),
    ),
    CommandEntry(
        "audit",
        "monitor.cli.audit:audit",
        "Export who changed what: silences, reloads and all other writes.",
        ("audit", "audit --since 7d --output csv", "audit --since 2026-11-21T10:00:00Z --json"),
    ),
    CommandEntry(
        "track",
        "monitor.cli.track:track",
        "Follow one run by its id, also where the workspace lists none.",
        ("track job_group 7827359", "track flow_run 31 --wait --timeout 30m && ./next-step"),
    ),
    CommandEntry(
        "untrack",
        "monitor.cli.track:untrack",
        "Drop a request to track a run that was not read yet.",
        ("untrack flow_run 31", "untrack job_group 7827359 -w sales"),
    ),
    CommandEntry(
        "rerun",
        "monitor.cli.actions:rerun",
        "Run again what a run has run, and follow the new run.",
        ("rerun flow_run 31", "rerun job_group 7827359 -w sales --wait && ./next-step"),
    ),
    CommandEntry(
        "cancel",
        "monitor.cli.actions:cancel",
        "Cancel a run that has not ended.",
        ("cancel flow_run 31", "cancel job_group 7827359 -w sales"),
    ),
    CommandEntry(
        "outages",
        "monitor.cli.outages:outages",
        "List when workspaces were not seen in the last days, and why.",
        ("outages", "outages -w acme --json"),
    ),
    CommandEntry(
        "workspaces",
        "monitor.cli.workspaces:workspaces",
        "List workspaces: whether each can be seen, and since when.",
        (
            "workspaces",
            "workspaces --output wide",
        ),
    ),
    CommandEntry(
        "cluster",
        "monitor.cli.cluster:cluster",
        "List the daemons that share the store, and who holds which shard.",
        ("cluster", "cluster --holder node-2 --output wide", "cluster --json"),
    ),
    CommandEntry(
        "schedules",
        "monitor.cli.schedules:schedules",
        "List schedules: what each starts, and when next.",
        (
            "schedules",
            "schedules -w acme --pipeline 'month end'",
        ),
    ),
    CommandEntry(
        "store",
        "monitor.cli.store:store",
        "Check the store, export it into a dump, or import one.",
        (
            "store check",
            "store check -c /etc/dataprep-monitor/monitor.toml --json",
            "store export /var/backups/monitor-2026-11-21.dump",
            "store export acme.dump --workspace acme",
            "store import /var/backups/monitor-2026-11-21.dump",
        ),
    ),
    CommandEntry(
        "access",
        "monitor.cli.access:access",
        "Make a token for a user or program, or list who may come in.",
        (
            "access add ada --role operate",
            "access add prometheus --role metrics --json",
            "access list -c /etc/dataprep-monitor/monitor.toml",
        ),
    ),
    CommandEntry(
        "completion",
        "monitor.cli.completion:completion",
        "Print the completion script of a shell.",
        (
            "completion bash > ~/.dataprep-monitor.bash",
            "completion zsh > ~/.dataprep-monitor.zsh",
            "completion fish > ~/.config/fish/completions/dataprep-monitor.fish",
        ),
    ),
    CommandEntry(
        "webhooks",
        "monitor.cli.webhooks:webhooks",
        "List, sync, test or delete the daemon's webhook tasks.",
        ("webhooks list", "webhooks sync --flow 11"),
    ),
)
