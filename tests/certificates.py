"""Certificates that openssl makes for a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from monitor.listening.settings import TlsSettings
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
        self.server = self.sign("server", "subjectAltName=IP:127.0.0.1")
        self.client = self.sign("client", "extendedKeyUsage=clientAuth")

    def settings(self, certificate: Path, **changes: Path) -> TlsSettings:
        """Return the settings of a listener that serves with it."""
        files = {"certificate_file": certificate, "key_file": self.key_of(certificate), **changes}
        return TlsSettings(**{name: str(path) for name, path in files.items()})

    def key_of(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def sign(self, name: str, extension: str, *, days: int = 2) -> Path:
        """Return a new certificate and its key; with negative days it has expired."""
        self._run("req", "-subj", f"/CN={name}", "-out", f"{name}.csr", *self._new_key(name))
        (self._folder / f"{name}.ext").write_text(extension)
        self._run(
            *("x509", "-req", "-days", str(days), "-in", f"{name}.csr", "-out", f"{name}.pem"),
            *("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", f"{name}.ext"),
        )
        return self._folder / f"{name}.pem"

    def sign_itself(self, name: str) -> Path:
        """Return a certificate that no authority has signed."""
        self._run(
            *("req", "-x509", "-days", "2", "-subj", f"/CN={name}", "-out", f"{name}.pem"),
            *self._new_key(name),
        )
        return self._folder / f"{name}.pem"

    def encrypt_key(self, certificate: Path, name: str) -> None:
        """Write the key of a certificate once more, with a passphrase."""
        key = str(self.key_of(certificate))
        self._run("ec", "-aes256", "-passout", "pass:passphrase", "-in", key, "-out", name)

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
