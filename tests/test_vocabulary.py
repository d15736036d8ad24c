"""Holds names and sentences to the field's words: no private dialect, no name twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

TREE = Path(__file__).parent.parent

# Former word -> what to write instead. A word of two parts is a row of parts of a name.
FORMER_WORDS = {
    "asking": "daemon client",
    "bare": "incomplete",
    "beyond": "inventory",
    "course": "what it holds, by its domain name",
    "draft": "pending step",
    "drafts": "pending step",
    "episode": "alert",
    "episodes": "alerts",
    "explaining": "explain, explanation",
    "fault": "problem",
    "faults": "problems",
    "go_on": "continue",
    "hand_on": "pass, forward",
    "hear": "handle, on_event",
    "heard": "handle, on_event",
    "hearing": "handle, on_event",
    "hears": "handle, on_event",
    "held": "what it holds, by its domain name",
    "keep_house": "retention",
    "keeping": "retention",
    "housekeeping": "retention",
    "knowledge": "live state",
    "late_parents": "parent correlation",
    "let_go": "release, drop",
    "look": "observation (of a run), evaluation (of a rule)",
    "looked": "observation (of a run), evaluation (of a rule)",
    "looking": "observation (of a run), evaluation (of a rule)",
    "looks": "observation (of a run), evaluation (of a rule)",
    "made_known": "unidentified runs",
    "moment": "what it holds, by its domain name",
    "moments": "what it holds, by its domain name",
    "note": "state entry",
    "noted": "recorded",
    "notes": "state entries",
    "offer": "capability",
    "offered": "capability",
    "offering": "capabilities",
    "offerings": "capabilities",
    "offers": "capabilities",
    "outermost": "root run",
    "pace": "what it holds, by its domain name",
    "picture": "snapshot, view model",
    "pictures": "snapshots, view models",
    "places": "locations",
    "retiring": "rule removal",
    "round": "evaluation cycle",
    "rounds": "evaluation cycles",
    "seen": "observed",
    "settle": "process",
    "settled": "processed",
    "settles": "processes",
    "sheet": "exposition cache",
    "sheets": "exposition cache",
    "sighting": "observation",
    "sightings": "observations",
    "sitting": "evaluation context",
    "standing": "pipeline health, store status, consumer status",
    "standings": "pipeline health, store status, consumer status",
    "station": "explanation step",
    "stations": "explanation steps",
    "steer": "a file for each command",
    "take_in": "accept, read",
    "tell": "publish, notify, emit, report, return",
    "telling": "publish, notify, emit, report, return",
    "tells": "publish, notify, emit, report, return",
    "told": "published, notified, emitted, reported, returned",
    "trail": "evaluation history",
    "unclear": "unknown",
    "verdict": "evaluation result",
    "verdicts": "evaluation results",
    "waking": "timers",
    "wanted": "refetch queue",
    "was_there": "preexisting",
    "way_out": "hint",
    "ways_out": "hints",
    "whose": "root run",
    "wrong": "firing, problem",
}

# The second dialect, after the first was gone: for names of modules, classes, functions, constants.
SECOND_DIALECT = {
    "behind": "after; ahead, for those that come before",
    "careful": "what is true then",
    "fitting": "consistency, matching",
    "garbage": "gc, garbage collection",
    "give_back": "release",
    "handles": "file descriptors",
    "hang_up": "sighup, drop connection",
    "hurried": "what is true then",
    "is_whole": "is_complete",
    "misses": "missed callbacks",
    "obstacle": "problem",
    "obstacles": "problems of a path",
    "patience": "linger",
    "patient": "may_linger",
    "scene": "scenario",
    "shared_values": "interning",
    "stage": "step, fixture",
    "story": "scenario, recorded history",
    "theatre": "fixture",
    "traces": "leftover files",
    "trial": "check, probe",
}
FORMER_WORDS |= SECOND_DIALECT

# Room or module, and the former word that is ordinary English or the right word there.
EXCEPTIONS = {
    ("alerting", "stage"): "the field `stage` of a step of an explanation",
    ("model", "garbage"): "garbage collection",
    ("sandbox", "fault"): "what the sandbox injects",
    ("sandbox", "faults"): "what the sandbox injects",
    ("sandbox", "wrong"): "a value that is not right, as `_wrong_type`",
    ("alerting", "seen"): "the mark `over_when_seen` of an alert",
    ("cli", "faults"): "the command `sandbox` lists what the sandbox injects",
}

# Folders whose files are named like what the folder has one for each of: it settles the name.
NAMED_BY_FOLDER = (
    "monitor/bus/postgres",  # a part of a store
    "monitor/bus/sqlite",
    "monitor/cli",  # a command, or what `doctor` checks
    "monitor/outputs/alertmanager",  # a part of an output
    "monitor/outputs/file",
    "monitor/outputs/mqtt",
    "monitor/outputs/webhook",
    "monitor/polling/inventory",  # what is polled
    "monitor/sandbox",  # the workspace, which has runs, schedules and errors of its own
    "monitor/web/api",  # a route
    "monitor/web/views",  # what is shown
)
# File names that stand twice elsewhere, and why.
FILES_TWICE = {
    "live_state": "its types in model, what holds them in tracking",
    "settings": "of each room",
}

# stage: fixture, scene: scenario, story: recorded history. An explanation has stages.
FORMER_TEST_WORDS = {"scene", "scenes", "stage", "stages", "story", "stories", "theatre"}

# A docstring of a module does not begin with one of these.
QUESTION_WORDS = frozenset(
    {"how", "if", "what", "whatever", "when", "where", "whether", "which", "who", "whose", "why"}
)

# Words that have no place in the documents either, whatever the sentence.
FORMER_PROSE = re.compile(
    r"\b(hears?|heard|judged?|judges|sightings?|tell|tells|telling|told|verdicts?|way out)\b",
    re.IGNORECASE,
)

# Of the second dialect, in code as well; "behind" is right for a proxy, a lag and what is left.
SECOND_PROSE = re.compile(r"\b(behind|in front of)\b", re.IGNORECASE)
RIGHT_PROSE = re.compile(
    r"\b(always|are|be|been|falls?|far|files|furthest|is|lags?|left|little|nothing|stays|was|were)"
    r" behind\b|\bbehind,? (a|the|them|two|trusted)?($| ?(reverse )?prox)"
    r"|\"behind\"|behind the newest event",
    re.IGNORECASE,
)

# Sentences and names say who or what is meant; "again" and "without end" are said so.
UNNAMED = re.compile(
    r"nobody|somebody|whoever|written_rows|(?<![a-z])(anew|for[_\s#]+ever|of[_\s#]+which)(?![a-z])",
    re.IGNORECASE,
)
FOLDERS = (".github", "config", "deploy", "monitor", "tests")
TEXTS = frozenset({".conf", ".html", ".js", ".md", ".py", ".sql", ".toml", ".yaml", ".yml"})


def python_files(*folders: str, without: str = "") -> Iterator[Path]:
    """Yield every module of the folders of the tree, in order."""
    for folder in folders:
        for path in sorted((TREE / folder).rglob("*.py")):
            if not without or not path.is_relative_to(TREE / without):
                yield path


def parts_of(name: str) -> list[str]:
    """Return the words of a name in snake_case, CamelCase or both, in lower case."""
    return [
        part.lower()
        for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+", name)
    ]


def former_words(name: str) -> list[str]:
    """Return the words of a name that the field has another word for."""
    parts = parts_of(name)
    pairs = [f"{first}_{second}" for first, second in pairwise(parts)]
    return [word for word in (*parts, *pairs) if word in FORMER_WORDS]


class Names(NamedTuple):
    """Names in a file, each with its line: what it defines, public classes, and variables."""

    defined: list[tuple[int, str]]  # the module itself, its classes, functions and constants
    classes: list[tuple[int, str]]
    variables: list[tuple[int, str]]  # loop variables and parameters


@cache
def names_in(path: Path) -> Names:
    names = Names([(1, path.parent.name if path.stem == "__init__" else path.stem)], [], [])
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            stored = (name for name in ast.walk(statement) if isinstance(name, ast.Name))
            names.defined.extend(
                (name.lineno, name.id) for name in stored if isinstance(name.ctx, ast.Store)
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.defined.append((node.lineno, node.name))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names.classes.append((node.lineno, node.name))
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            targets = (name for name in ast.walk(node.target) if isinstance(name, ast.Name))
            names.variables.extend((name.lineno, name.id) for name in targets)
        elif isinstance(node, ast.arg):
            names.variables.append((node.lineno, node.arg))
    return names


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(TREE)}:{line}"


def dialect() -> list[str]:
    """Return a line for each module, class, function or constant with a former word."""
    return [
        f"{place(path, line)}: {name}: {word} is now: {FORMER_WORDS[word]}"
        for path in python_files("monitor")
        for line, name in names_in(path).defined
        for word in former_words(name)
        if (path.relative_to(TREE / "monitor").parts[0], word) not in EXCEPTIONS
    ]


def nameless() -> list[str]:
    """Return a line for each loop variable and parameter that is named `one`."""
    return [
        f"{place(path, line)}: name it for what it is, not `one`"
        for path in python_files("monitor", "tests")
        if re.search(r"\bone\b", path.read_text())
        for line, name in names_in(path).variables
        if name == "one"
    ]


def second_prose(path: Path) -> list[str]:
    """Return a line for each line of a file with a word of the second dialect."""
    return [
        f"{place(path, number)}: {word}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word in SECOND_PROSE.findall(RIGHT_PROSE.sub("", line))
    ]


def unnamed() -> list[str]:
    """Return a line for each place where a sentence or name does not say who or what it means."""
    paths = [path for folder in FOLDERS for path in (TREE / folder).rglob("*")]
    return [
        f"{place(path, text.count(chr(10), 0, found.start()) + 1)}: {found[0]}"
        for path in [TREE / "README.md", *sorted(paths)]
        if path.suffix in TEXTS and path != Path(__file__)
        for text in [path.read_text()]
        for found in UNNAMED.finditer(text)
    ]


def questions() -> list[str]:
    """Return a line for each module of the package whose docstring begins with a question word."""
    return [
        f"{place(path, 1)}: begin with a noun or a verb, not with {first}"
        for path in python_files("monitor")
        for first in (ast.get_docstring(ast.parse(path.read_text())) or "").split(maxsplit=1)[:1]
        if first.strip(",.:;").lower() in QUESTION_WORDS
    ]


def repeated_classes() -> list[str]:
    """Return a line for each public class name that stands more than once in the daemon."""
    places = defaultdict(list)
    for path in python_files("monitor", without="monitor/sandbox"):
        for line, name in names_in(path).classes:
            places[name].append(place(path, line))
    return [f"{', '.join(where)}: {name}" for name, where in places.items() if len(where) > 1]


def test_names_are_the_fields_words() -> None:
    """No module, class or function is named in words that only this project would understand."""
    assert dialect() == []


def test_a_variable_is_named_for_what_it_is() -> None:
    """No loop variable and no parameter is `one`."""
    assert nameless() == []


def test_a_module_says_what_it_is() -> None:
    """The docstring of a module begins with what it is or does, not with a question about it."""
    assert questions() == []


def test_docstrings_and_comments_are_written_in_the_fields_words() -> None:
    """Order in a log or queue is after and before; a holder, owner or caller is called so."""
    assert [line for path in python_files("monitor") for line in second_prose(path)] == []


def test_sentences_and_names_say_who_or_what_is_meant() -> None:
    """A user, a caller, a daemon or a client is called so, in code, tests and documents."""
    assert unnamed() == []


def test_a_public_class_name_is_unique() -> None:
    """A search for a class name in the daemon finds one class."""
    assert repeated_classes() == []


def repeated_files() -> dict[str, list[str]]:
    """Return the names that several files have, with their places."""
    places = defaultdict(list)
    for path in python_files("monitor"):
        is_settled = any(path.is_relative_to(TREE / folder) for folder in NAMED_BY_FOLDER)
        if not is_settled and not path.stem.startswith("__"):
            places[path.stem].append(str(path.relative_to(TREE)))
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_file_name_is_unique_where_its_folder_does_not_settle_it() -> None:
    """A file that is named in a trace or a message is found by its name alone."""
    assert repeated_files().keys() == FILES_TWICE.keys()


def test_fixtures_and_scenarios_are_called_so() -> None:
    """A class that prepares something for tests is named for what it prepares."""
    named = [
        (path.name, name)
        for path in python_files("tests")
        for name in [path.stem, *(name for _, name in names_in(path).defined)]
        if FORMER_TEST_WORDS.intersection(parts_of(name))
    ]
    assert named == []


def test_every_exception_is_still_needed() -> None:
    """An exception that excepts nothing is removed."""
    used = {
        (path.relative_to(TREE / "monitor").parts[0], word)
        for path in python_files("monitor")
        for _, name in names_in(path).defined
        for word in former_words(name)
    }
    assert set(EXCEPTIONS) - used == set()


def test_the_guide_of_the_code_uses_no_former_word() -> None:
    """The glossary defines words that names may use."""
    table = (TREE / "monitor" / "README.md").read_text().partition("## The words")[2]
    terms = re.findall(r"^\| ([^|]+) \|", table.partition("\n## ")[0], re.MULTILINE)
    assert "refetch queue" in terms
    assert [term for term in terms if former_words(term) and term != "fault"] == []


def documents() -> list[Path]:
    """Return the documents for users and contributors; the changelog may quote former words."""
    folders = [
        path for name in ("config", "deploy", "monitor") for path in (TREE / name).glob("*.md")
    ]
    return [TREE / "README.md", *sorted(folders), TREE / "config" / "monitor.toml"]


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(TREE)))
def test_documents_are_written_in_the_fields_words(path: Path) -> None:
    """No sentence of a document uses a former word; code in it may."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    assert FORMER_PROSE.findall(text) == []
    assert second_prose(path) == []
