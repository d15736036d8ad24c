"""All 186 operations, called by the client by id and on the command line by method and path."""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.model.secrets import Secret
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.files import Upload
from monitor.workspace.settings import WorkspaceSettings
from tests.cli.api_scenario import configured
from tests.cli.command_process import CommandProcess
from tests.sandbox.samples.sample import Living, Sample
from tests.sandbox.samples.table import SAMPLES, open_living

FILES = (b"PK\x03\x04", b"%PDF-")


def upload_of(living: Living, sample: Sample, folder: Path) -> Path | None:
    """Write the package that a sample sends, None where it sends none."""
    if sample.upload is None:
        return None
    path = folder / "package.zip"
    path.write_bytes(sample.upload(living))
    return path


def is_well(operation: Operation, body: bytes) -> bool:
    """True where an answer is what such an operation answers: a file, JSON, or nothing."""
    if operation.answers_file:
        return body.startswith(FILES)
    return not body or json.loads(body) is not None


async def call(living: Living, operation: Operation, folder: Path) -> str | None:
    """Call an operation by its id; return what went wrong."""
    sample = SAMPLES[operation.operation_id]
    package = upload_of(living, sample, folder)
    settings = WorkspaceSettings(
        name="acme", url=living.workspace.url, token=Secret(sample.token), retries=0
    )
    body = None if sample.body is None else sample.body(living)
    async with WorkspaceClient(
        settings, clock=living.workspace.clock, registry=CollectorRegistry()
    ) as client:
        answer = await client.requester.request(
            operation.operation_id,
            *sample.path(living),
            query=sample.query,
            body=body if package is None else Upload(path=package),
            priority=Priority.CHANGES,
        )
    good = answer.status_code in {200, 201, 204} and is_well(operation, answer.body)
    return None if good else f"{operation.operation_id}: {answer.status_code} {answer.body[:200]!r}"


async def type_it(
    living: Living, operation: Operation, folder: Path, run_command: CommandProcess
) -> str | None:
    """Call an operation on the command line by method and path; return what went wrong."""
    sample = SAMPLES[operation.operation_id]
    config = configured(folder, living.workspace.url, token=sample.token, edition="open")
    line = ["api", operation.method, operation.fill(*sample.path(living))]
    for name, value in sample.query.items():
        line += ["-q", f"{name}={value}"]
    package = upload_of(living, sample, folder)
    if package is not None:
        line += ["-d", f"@{package}"]
    elif sample.body is not None:
        line += ["-d", json.dumps(sample.body(living))]
    shell_output = await run_command(*line, config=config)
    good = (
        shell_output.code == 0 and not shell_output.err and is_well(operation, shell_output.content)
    )
    return None if good else f"{operation.operation_id}: {shell_output}"


async def test_the_client_calls_every_operation(tmp_path: Path) -> None:
    """By id, each in a world in which it can succeed, and each does."""
    problems = []
    for operation in operations():
        async with open_living(Edition.OPEN) as living:
            problems.append(await call(living, operation, tmp_path))
    assert len(problems) == 186
    assert [problem for problem in problems if problem] == []


async def test_the_command_line_calls_every_operation(
    tmp_path: Path, run_command: CommandProcess
) -> None:
    """By method and path, with query, body or package, and nothing but the answer is printed."""
    problems = []
    for operation in operations():
        async with open_living(Edition.OPEN) as living:
            problems.append(await type_it(living, operation, tmp_path, run_command))
    assert len(problems) == 186
    assert [problem for problem in problems if problem] == []
