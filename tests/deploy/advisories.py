"""Asks two databases for known weaknesses of what a lock names: ``tests.deploy.advisories``.

pip-audit passes where it could ask about nothing. Here each package that neither database answered
for is named, and fails the target as a weakness does.
"""

from __future__ import annotations

import json
import subprocess
import sys

SERVICES = ("pypi", "osv")
_SECONDS = 300
_OPTIONS = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json")


class Findings:
    """What the databases say of the packages of a lock."""

    def __init__(self) -> None:
        self.weaknesses: set[str] = set()
        self.audited: set[str] = set()
        self.skipped: set[str] = set()
        self.unreached: dict[str, str] = {}  # service -> why

    def add(self, service: str, output: str, errors: str) -> None:
        """Take the output of a run of pip-audit; without JSON the database was not reached."""
        try:
            packages = json.loads(output)["dependencies"]
        except ValueError:
            self.unreached[service] = errors.strip().rpartition("\n")[2] or "no answer"
            return
        for package in packages:
            name = f"{package['name']} {package.get('version', '')}".strip()
            if "skip_reason" in package:
                self.skipped.add(package["name"])
                continue
            self.audited.add(package["name"])
            self.weaknesses |= {f"{name}: {found['id']}" for found in package["vulns"]}

    def lines(self) -> list[str]:
        """Return the findings, one a line; the last is the sum."""
        unknown = sorted(self.skipped - self.audited)
        counts = (
            f"{len(self.audited)} packages audited, {len(unknown)} not, "
            f"{len(self.weaknesses)} weaknesses"
        )
        return [
            *(f"not reached: {service}: {why}" for service, why in self.unreached.items()),
            *(f"not audited: {name}" for name in unknown),
            *(f"weakness: {found}" for found in sorted(self.weaknesses)),
            counts,
        ]

    def passed(self) -> bool:
        """True where each package was audited, and none has a known weakness."""
        return bool(self.audited) and not self.weaknesses and self.skipped <= self.audited


def main(pip_audit: str, lock: str) -> int:
    """Ask every database, print the findings, and return the exit code."""
    findings = Findings()
    for service in SERVICES:
        try:
            done = subprocess.run(
                [pip_audit, *_OPTIONS, "-s", service, "-r", lock],
                check=False,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            findings.add(service, "", f"no answer within {_SECONDS} s")
        else:
            findings.add(service, done.stdout, done.stderr)
    sys.stdout.write("\n".join([*findings.lines(), ""]))
    return 0 if findings.passed() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
