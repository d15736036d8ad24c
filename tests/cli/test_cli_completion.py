"""What bash, zsh and fish complete for a half typed command, run through the shells."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from monitor.cli.main import main
from tests.servers import program

NAME = "dataprep-monitor"
CONFIGURATION = """
[[workspaces]]
name = "north"
[[workspaces]]
name = "south"
[[alerts]]
name = "own_rule"
[mqtt]
[alertmanager]
urls = ["http://mail:9093"]
[file]
"""
# What is typed, and all completions of it.
TYPED = [
    ("ope", ["operations"]),
    ("api getFlowRunS", ["getFlowRunStatus"]),
    ("api GET /v4/jobL", ["/v4/jobLibrary", "/v4/jobLibrary/count"]),
    ("api post /v4/flows/11/r", ["/v4/flows/11/run"]),
    ("api GET /v4/plans/5/run", ["/v4/plans/5/runParameters"]),
    ("api getFlow 1", []),
    ("api countPlans -q owner", ["ownershipFilter="]),
    ("api GET /v4/people -q ema", ["email="]),
    ("api nothing -q e", []),
    ("api getFlow 1 --execution", ["--execution-id"]),
    ("runs -w ", ["north", "south"]),
    ("operations --edition P", ["PC", "PL"]),
    ("operations --resource JobG", ["JobGroup"]),
    ("sandbox --fault latency=1,status_5", ["latency=1,status_500", "latency=1,status_503"]),
    ("webhooks s", ["sync"]),
    ("track plan", ["plan_run"]),
    ("alerts --rule own", ["own_rule"]),
    ("silence e", ["expire"]),
    ("silence add pipe", ["pipeline=", "pipeline_id="]),
    ("explain fl", ["flow", "flow_run"]),
    ("replay --to alert", ["alertmanager:mail:9093"]),
    ("replay --to f", ["file"]),
    ("dead-letters --for f", ["file"]),
    ("dead-letters res", ["resend"]),
    ("notify pre", ["preview"]),
    ("dead-letters drop f", ["file"]),
    ("dead-letters show f", []),
    ("sta", ["status"]),
    ("runs --output ", ["table", "wide", "json", "csv"]),
    ("events --type run.fail", ["run.failed"]),
]
# The other shells run the same command, so one of each form is enough.
SOME = TYPED[:4] + TYPED[5:7] + TYPED[9:11]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Put the command on the shells' path, and a configuration at its default path."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / NAME
    root = Path(__file__).parents[2]
    start = f"PYTHONPATH={shlex.quote(str(root))} exec {shlex.quote(sys.executable)}"
    command.write_text(f'#!/bin/sh\n{start} -m monitor.cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "monitor.toml").write_text(CONFIGURATION)
    return {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "DATAPREP_MONITOR_CONFIG": str(tmp_path / "monitor.toml"),
        "LC_ALL": "C.UTF-8",
        "FOLDER": str(tmp_path / "bin"),
    }


def shell_output(shell: str, code: str, environment: dict[str, str], *options: str) -> str:
    """Let a shell run code, and return what it prints."""
    done = subprocess.run(
        [program(shell), *options, "-c", code],
        env=environment,
        # Without completions shells name files: this one fits nothing typed here.
        cwd=environment["FOLDER"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_bash_completes_what_fits(environment: dict[str, str]) -> None:
    """The printed script, sourced by bash, fills in each of the words."""
    lines = [f'eval "$({NAME} completion bash)"']
    for typed, _ in TYPED:
        words = [NAME, *typed.split(" ")]
        lines += [
            f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}",
            f"COMPREPLY=(); _dataprep_monitor_completion {NAME}",
            'echo "${COMPREPLY[*]}"',
        ]
    output = shell_output("bash", "\n".join(lines), environment, "--norc").splitlines()
    assert [sorted(line.split()) for line in output] == [
        sorted(completions) for _, completions in TYPED
    ]


def test_fish_completes_what_fits(environment: dict[str, str]) -> None:
    """The printed script, sourced by fish, completes each with its description."""
    lines = [f"{NAME} completion fish | source"]
    for typed, _ in SOME:
        lines += [f"complete -C {shlex.quote(f'{NAME} {typed}')}", "echo @@"]
    output = shell_output("fish", "\n".join(lines), environment, "--no-config").split("@@\n")
    printed = [[line.split("\t")[0] for line in part.splitlines()] for part in output]
    expected = [sorted(completions) for _, completions in SOME]
    assert [sorted(part) for part in printed[: len(expected)]] == expected
    assert "getFlowRunStatus\tGet flow run status" in output[1]


def test_zsh_completes_what_fits(environment: dict[str, str]) -> None:
    """The printed script, evaluated by zsh, hands over each value with what it is."""
    lines = [
        "compdef() { :; }; _files() { :; }",
        # Instead of the menu: what would stand in it.
        "_arguments() { print -r -- ${@//$'\\n'/ }; }",
        f'eval "$({NAME} completion zsh)"',
    ]
    for typed, _ in SOME:
        words = [NAME, *typed.split(" ")]
        lines += [
            f"words=({' '.join(map(shlex.quote, words))}); CURRENT={len(words)}",
            "_dataprep_monitor_completion",
            "print @@",
        ]
    output = shell_output("zsh", "\n".join(lines), environment, "-f").split("@@\n")
    printed = [re.findall(r'"([^"]*)"(?::"[^"]*")?', part) for part in output[: len(SOME)]]
    assert [sorted(part) for part in printed] == [sorted(completions) for _, completions in SOME]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    """The script goes to stdout whatever shell this is, and names the command."""
    assert main(["completion", shell]) == 0
    captured = capsys.readouterr()
    assert f"complete_{shell}" in captured.out
    assert NAME in captured.out
    assert captured.err == ""


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown shell is answered with the known ones."""
    assert main(["completion", "ksh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_a_broken_configuration_completes_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A key press prints no message about a file that is wrong or not there."""
    run_checks = {**environment, "COMP_WORDS": f"{NAME} runs -w ", "COMP_CWORD": "3"}
    run_checks["_DATAPREP_MONITOR_COMPLETE"] = "complete_bash"
    for text in ("[[workspaces]", "workspaces = 3", "workspaces = [3]", None):
        path = tmp_path / "monitor.toml"
        path.unlink() if text is None else path.write_text(text)
        done = subprocess.run(
            [NAME], env=run_checks, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_a_key_press_loads_nothing_heavy(environment: dict[str, str]) -> None:
    """Completing an operation loads the catalogue, and neither client nor sandbox."""
    code = (
        "import sys\n"
        "from monitor.cli.main import main\n"
        "try:\n    main([])\n"
        "finally:\n"
        "    heavy = {'aiohttp', 'prometheus_client', 'structlog', 'monitor.sandbox'}\n"
        "    print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    run_checks = {**os.environ, **environment, "COMP_WORDS": f"{NAME} api getFl", "COMP_CWORD": "2"}
    run_checks["_DATAPREP_MONITOR_COMPLETE"] = "complete_bash"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=run_checks,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"
    assert "getFlowPackage" in done.stdout.splitlines()
