"""What a status page may show, and the sentence for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.settings_tables import file, problems, workspace

PAGE = {"name": "finance", "shows": {"Orders": "marketing/flow/101"}}


def page(**changes: Any) -> dict[str, Any]:
    """Return a configuration with one status page, and changes to that."""
    return file(workspaces=[workspace(name="marketing")], status_pages=[{**PAGE, **changes}])


def test_a_page_is_read_in_the_order_of_the_file() -> None:
    """Names of people's own, whatever their alphabet."""
    named = {"Zürich \N{SNOWMAN}": "marketing/plan/9", "Aarau": "marketing/flow/101"}
    assert problems(page(shows=named, public=True, time_zone="Europe/Zurich")) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shows": {}}, "name 1 to 100 pipelines"),
        ({"shows": {"Orders": "marketing/flow"}}, "write WORKSPACE/flow/ID"),
        ({"shows": {"Orders": "marketing/job/1"}}, "write WORKSPACE/flow/ID"),
        ({"shows": {"Orders": "marketing/flow/1/2"}}, "write WORKSPACE/flow/ID"),
        ({"shows": {"Orders": "marketng/flow/1"}}, "did you mean marketing?"),
        ({"shows": {"": "marketing/flow/1"}}, "must not be empty"),
        ({"shows": {"a\nb": "marketing/flow/1"}}, "line end"),
        ({"shows": {"x" * 101: "marketing/flow/1"}}, "over 100 characters"),
        ({"name": "Finance"}, "use 1 to 63 of a-z"),
        ({"time_zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"embedded_in": ["https://wiki.example.com/page"]}, "without a path"),
        ({"embedded_in": ["https://a.example; script-src *"]}, "names no host"),
        ({"embedded_in": ["*"]}, "must be an origin"),
    ],
)
def test_what_cannot_be_shown_is_a_problem(changes: dict[str, Any], words: str) -> None:
    """One sentence, with the key and the way out."""
    (problem,) = problems(page(**changes))
    assert problem.startswith("status_pages[0].")
    assert words in problem


def test_two_pages_of_one_name_are_a_problem() -> None:
    """Else one of them could never be read."""
    mapping = file(workspaces=[workspace(name="marketing")], status_pages=[PAGE, PAGE])
    (problem,) = problems(mapping)
    assert "is the name of status_pages[0] already" in problem
