"""The locks, which name each package that is installed by its version and its hashes."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.deploy.documents import ROOT, blocks

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
DAEMON = [
    *PROJECT["project"]["dependencies"],
    *(line for extra in ("calendars", "notify", "oidc", "postgres") for line in EXTRAS[extra]),
]
ASKED = {
    "requirements.lock": DAEMON,
    "requirements-build.lock": PROJECT["dependency-groups"]["build"],
    "requirements-test.lock": [*DAEMON, *EXTRAS["demo"], *EXTRAS["test"]],
}


def entries(lock: str) -> list[str]:
    """Return each entry of a lock, its lines joined, without comments."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ").splitlines()


def pins(lock: str) -> dict[str, str]:
    """Return the version of each package of a lock, by its normalised name."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(entries(lock)), re.MULTILINE))


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_meets_what_the_project_asks_for(lock: str) -> None:
    """A dependency that changed without the locks is noticed."""
    locked = pins(lock)
    asked = [Requirement(line) for line in ASKED[lock] if not line.startswith("dataprep-monitor[")]
    assert asked
    unmet = [
        str(wanted)
        for wanted in asked
        if not wanted.specifier.contains(
            locked.get(re.sub(r"[-_.]+", "-", wanted.name).lower(), "0"), prereleases=True
        )
    ]
    assert unmet == [], "make lock"


@pytest.mark.parametrize("lock", ASKED)
def test_each_entry_of_a_lock_has_hashes_and_no_address(lock: str) -> None:
    """Where a package is loaded from is the installer's choice; which bytes it has is not."""
    form = re.compile(r"[a-z0-9-]+==\S+( ; [^:]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries(lock) if not form.fullmatch(entry)] == []
    assert "://" not in (ROOT / lock).read_text()


def test_the_tests_have_the_versions_that_are_deployed() -> None:
    """No package of the daemon or of its build has another version where it is tested."""
    tested = pins("requirements-test.lock")
    for lock in ("requirements.lock", "requirements-build.lock"):
        other = {name: version for name, version in pins(lock).items() if name in tested}
        assert other == {name: tested[name] for name in other}
    assert pins("requirements.lock").keys() <= tested.keys()


@pytest.mark.parametrize("place", ["image", "service", "tests"])
def test_packages_are_installed_by_their_hashes(place: str) -> None:
    """No step of image, service and tests takes what no lock names; our own is taken alone."""
    guide = "\n".join(blocks("sh", ROOT / "deploy" / "README.md")[:1])
    text = {
        "image": (ROOT / "deploy" / "Containerfile").read_text(),
        "service": guide,
        "tests": (ROOT / "Makefile").read_text().partition("\n$(TEST):")[2].partition("\n\n")[0],
    }[place]
    steps = re.findall(r"pip (?:install|wheel) .*", text)
    assert len(steps) >= 2
    assert [step for step in steps if not re.search(r"--require-hashes|--no-deps", step)] == []
    isolated = [step for step in steps if step.rstrip(" \\").endswith(" .")]
    assert isolated
    assert all("--no-build-isolation" in step for step in isolated)
