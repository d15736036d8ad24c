"""The wheel, from which an installation gets everything that the daemon needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.deploy.documents import ROOT
from tests.deploy.test_deploy_files import DEPLOY


def build(checkout: Path, folder: Path) -> None:
    """Build wheel and sdist of a checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder],
        cwd=checkout,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with wheel and sdist of this checkout."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def files(built: Path) -> dict[str, bytes]:
    """Return what the wheel of this checkout holds, by path."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_the_wheel_has_the_runbooks_themselves(files: dict[str, bytes]) -> None:
    """The page shows the very document, without the checkout."""
    runbooks = (DEPLOY / "runbooks.md").read_bytes()
    assert files["monitor/web/views/alerts/runbooks.markdown"] == runbooks


def test_the_wheel_has_every_file_of_the_package(files: dict[str, bytes]) -> None:
    """Templates, styles, schemas and tables are packed as the code is."""
    package = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "monitor").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert [path for path in package if path not in files] == []


def test_the_image_is_built_from_all_that_the_wheel_needs() -> None:
    """Each file outside of the package to which it links is copied before the wheel is built."""
    image = (DEPLOY / "Containerfile").read_text()
    linked = [path.resolve() for path in (ROOT / "monitor").rglob("*") if path.is_symlink()]
    assert linked
    for path in linked:
        inside = path.relative_to(ROOT).as_posix()
        assert f"\nCOPY {inside} {inside}\n" in image.partition("pip wheel")[0]


def test_wheel_and_sdist_have_the_same_bytes_wherever_they_are_built(
    built: Path, tmp_path: Path
) -> None:
    """Built from the checkout, and from its sdist in another folder with other times of files."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    (folder / "PKG-INFO").unlink()  # made by the build, and no file of the checkout
    for path in folder.rglob("*.py"):
        os.utime(path, (1, 1))
    build(folder, tmp_path / "elsewhere")
    bytes_of = [
        {path.name: path.read_bytes() for path in place.iterdir()}
        for place in (built, tmp_path / "elsewhere")
    ]
    assert len(bytes_of[0]) == 2
    assert bytes_of[0] == bytes_of[1]
