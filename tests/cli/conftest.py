"""What several tests of commands need."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_process import CommandProcess
from tests.servers import program


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate of this machine that ends in 30 days, and its key."""
    folder = tmp_path_factory.mktemp("doctor-tls")
    made = (folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(made[0]), "-keyout", str(made[1])),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return made


@pytest.fixture(scope="session")
def run_command() -> Iterator[CommandProcess]:
    """Start the command once for all tests that run many command lines."""
    process = CommandProcess()
    yield process
    process.close()
