"""What templates are compiled to is kept for the next process, and never used for others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from monitor.web.page.compiled_templates import CompiledTemplates


@pytest.fixture(autouse=True)
def _written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be written, which the environment of a test run may forbid."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def _compiled(cache: CompiledTemplates, source: str) -> bool:
    """Compile the template where that is due; return whether it had been compiled before."""
    environment = Environment(
        loader=DictLoader({"page": source}), bytecode_cache=cache, autoescape=True
    )
    bucket = cache.get_bucket(environment, "page", "page.html", source)
    if bucket.code is not None:
        return True
    bucket.code = environment.compile(source, "page", "page.html")
    cache.set_bucket(bucket)
    return False


def test_the_next_process_need_not_compile(tmp_path: Path) -> None:
    """Another source, another way of compiling and a file that was cut off are compiled again."""
    assert not _compiled(CompiledTemplates(tmp_path, compiled_by="1"), "{{ a }}")
    assert _compiled(CompiledTemplates(tmp_path, compiled_by="1"), "{{ a }}")
    assert not _compiled(CompiledTemplates(tmp_path, compiled_by="1"), "{{ b }}")
    assert not _compiled(CompiledTemplates(tmp_path, compiled_by="2"), "{{ b }}")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for length in range(0, len(whole), len(whole) // 9):
        file.write_bytes(whole[:length])
        assert not _compiled(CompiledTemplates(tmp_path, compiled_by="2"), "{{ b }}")


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    """An installation of another user is not changed, and its pages are there all the same."""
    folder = tmp_path / "absent"
    assert not _compiled(CompiledTemplates(folder, compiled_by="1"), "{{ a }}")
    cache = CompiledTemplates(folder, compiled_by="1")
    assert not _compiled(cache, "{{ a }}")
    assert _compiled(cache, "{{ a }}")  # within a process it is kept in memory
    assert not folder.exists()
