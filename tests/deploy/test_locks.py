"""The locks, which name each package that is installed by its version and its hashes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
_INSTALL_SECONDS = 600
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))?(?= +--hash)")


def entries(lock: str) -> list[str]:
    """Return each entry of a lock, its lines joined, without comments."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ").splitlines()


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
        if not wanted.specifier.contains(locked.get(normalised(wanted.name), "0"), prereleases=True)
    ]
    assert unmet == [], "make lock"


@pytest.mark.parametrize("lock", ASKED)
def test_each_entry_of_a_lock_has_hashes_and_no_address(lock: str) -> None:
    """Where a package is loaded from is the installer's choice; which bytes it has is not."""
    form = re.compile(r"[a-z0-9-]+==\S+( ; [^:]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries(lock) if not form.fullmatch(entry)] == []
    assert "://" not in (ROOT / lock).read_text()


def environment(python: str, extra: str = "") -> dict[str, str]:
    """Return what a marker is evaluated in, on this platform under another Python."""
    return {"python_version": python, "python_full_version": f"{python}.1", "extra": extra}


def pins_under(python: str, lock: str) -> dict[str, str]:
    """Return the version of each package of a lock that this Python installs."""
    found = {}
    for entry in entries(lock):
        name, version, marker = _PIN.findall(entry)[0]
        if not marker or Marker(marker).evaluate(environment(python)):
            found[name] = version
    return found


def is_for(wanted: Requirement, python: str, extras: Collection[str] = ()) -> bool:
    """Return whether a requirement counts under a Python, given the extras that are asked for."""
    marker = wanted.marker
    if marker is None:
        return True
    return any(marker.evaluate(environment(python, extra)) for extra in ("", *extras))


def needs(asked: list[str], python: str) -> Iterator[Requirement]:
    """Yield what the requirements need under a Python, and what that needs, by its metadata."""
    queue = [Requirement(line) for line in asked if not line.startswith("dataprep-monitor[")]
    queue = [wanted for wanted in queue if is_for(wanted, python)]
    seen = set()
    while queue:
        wanted = queue.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        yield wanted
        try:
            metadata = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # this Python needs none; the lock has to have it all the same
        supported = SpecifierSet(metadata.metadata["Requires-Python"] or "")
        assert supported.contains(f"{python}.1"), f"{wanted.name} is not for {python}"
        further = [Requirement(line) for line in metadata.requires or ()]
        queue += [each for each in further if is_for(each, python, wanted.extras)]


@pytest.mark.parametrize("python", SUPPORTED)
@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_has_all_that_a_supported_python_needs(lock: str, python: str) -> None:
    """Each package is named for that Python, in a version that those who need it take."""
    locked = pins_under(python, lock)
    found = list(needs(ASKED[lock], python))
    assert len(found) > len(ASKED[lock])
    assert [
        str(wanted)
        for wanted in found
        if not wanted.specifier.contains(locked.get(normalised(wanted.name), "0"), prereleases=True)
    ] == []


@pytest.mark.soak
@pytest.mark.parametrize("python", SUPPORTED[1:])
def test_another_python_installs_the_lock(python: str, tmp_path: Path) -> None:
    """With wheels alone, by their hashes; where that Python is here, the daemon starts on it."""
    options = (
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--only-binary",
        ":all:",
    )
    packages = ("-r", ROOT / "requirements.lock")
    program = interpreter(python)
    if program is None:
        elsewhere = ("--dry-run", "--no-deps", "--target", tmp_path, "--python-version", python)
        run(sys.executable, "-m", "pip", "install", *options, *elsewhere, *packages)
        pytest.skip(f"python{python} is not here: its wheels were loaded, and nothing was started")
    run(program, "-m", "venv", tmp_path / "venv")
    own = tmp_path / "venv" / "bin" / "python"
    run(own, "-m", "pip", "install", *options, *packages)
    run(own, "-m", "pip", "check")
    assert "dataprep-monitor" in run(own, "-m", "monitor.cli.main", "--help")


def interpreter(python: str) -> str | None:
    """Return where that Python is on this machine, with pyenv or without."""
    name = shutil.which(f"python{python}")
    if name is None:
        return None
    done = subprocess.run(
        [name, "-c", "import sys; print(sys.executable)"],
        env={**os.environ, "PYENV_VERSION": python},
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.stdout.strip() or None


def run(*command: object) -> str:
    """Run a command at the top of the checkout, and return what it prints."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    guide = "\n".join(blocks("sh", ROOT / "deploy" / "README.md"))
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
