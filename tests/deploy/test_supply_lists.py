"""The lists of `make sbom` and `make audit`: what they say, and what they may not keep quiet."""

from __future__ import annotations

import json

from tests.deploy.advisories import Findings
from tests.deploy.licences import rows


def answer(*packages: dict[str, object]) -> str:
    """Return what pip-audit prints."""
    return json.dumps({"dependencies": packages, "fixes": []})


def skipped(name: str) -> dict[str, object]:
    return {"name": name, "skip_reason": "Dependency not found"}


def audited(name: str, *ids: str) -> dict[str, object]:
    return {"name": name, "version": "1.0", "vulns": [{"id": known} for known in ids]}


def test_each_component_has_its_declared_licences() -> None:
    """An expression wins over ids, and ids over names; what declares none is listed so."""
    components = [
        {"name": "d", "version": "4"},
        {"name": "c", "version": "3", "licenses": [{"license": {"name": "License :: OSI :: B"}}]},
        {"name": "B", "version": "2", "licenses": [{"license": {"id": "MIT"}}]},
        {"name": "a", "version": "1", "licenses": [{"expression": "MIT AND 0BSD"}]},
    ]
    assert list(rows({"components": components})) == [
        ("a", "1", "MIT AND 0BSD"),
        ("B", "2", "MIT"),
        ("c", "3", "B"),
        ("d", "4", "not declared"),
    ]


def test_an_audit_that_could_ask_about_nothing_fails() -> None:
    """Each package that no database answered for is named, and so is a database out of reach."""
    findings = Findings()
    findings.add("pypi", answer(skipped("aiohttp"), skipped("yarl")), "")
    findings.add("osv", "", "Traceback\nConnectionError: no name")
    assert not findings.passed()
    assert findings.lines() == [
        "not reached: osv: ConnectionError: no name",
        "not audited: aiohttp",
        "not audited: yarl",
        "0 packages audited, 2 not, 0 weaknesses",
    ]


def test_an_audit_fails_by_a_weakness_and_passes_without() -> None:
    """One database that answers for a package is enough, and what either knows counts."""
    findings = Findings()
    findings.add("pypi", answer(audited("aiohttp"), skipped("yarl")), "")
    findings.add("osv", answer(audited("aiohttp"), audited("yarl")), "")
    assert findings.passed()
    findings.add("osv", answer(audited("yarl", "CVE-1")), "")
    assert not findings.passed()
    assert findings.lines()[-2:] == [
        "weakness: yarl 1.0: CVE-1",
        "2 packages audited, 0 not, 1 weaknesses",
    ]
