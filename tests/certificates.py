"""Certificates that openssl makes for a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers import program


class Certificates:
    """An authority, and a server's and a client's certificate that it signed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._openssl = program("openssl")
        self.authority = folder / "ca.pem"
        self._run(
            *("req", "-x509", "-days", "2", "-subj", "/CN=test authority", "-out", "ca.pem"),
            *("-addext", "keyUsage=keyCertSign", *self._new_key("ca")),
        )
        self.server = self._sign("server", "subjectAltName=IP:127.0.0.1")
        self.client = self._sign("client", "extendedKeyUsage=clientAuth")

    def key_of(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def _sign(self, name: str, extension: str) -> Path:
        self._run("req", "-subj", f"/CN={name}", "-out", f"{name}.csr", *self._new_key(name))
        (self._folder / f"{name}.ext").write_text(extension)
        self._run(
            *("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-out", f"{name}.pem"),
            *("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", f"{name}.ext"),
        )
        return self._folder / f"{name}.pem"

    def _new_key(self, name: str) -> tuple[str, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        return (*curve, "-nodes", "-keyout", f"{name}.key")

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            [self._openssl, *arguments],
            cwd=self._folder,
            check=True,
            capture_output=True,
            timeout=20,
        )
