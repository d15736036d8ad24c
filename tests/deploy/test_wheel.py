"""The wheel, from which an installation gets everything that the daemon needs."""

from __future__ import annotations

import sys
import zipfile

import pytest

from tests.deploy.documents import ROOT
from tests.deploy.test_deploy_files import DEPLOY, checked


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what the wheel of this checkout holds, by path."""
    folder = tmp_path_factory.mktemp("wheel")
    checked(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
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
