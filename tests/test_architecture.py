"""The architecture: which room may import which, and which library lives where."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "monitor"

# Room -> what it may import, as prefixes of dotted names below the package.
MODEL = ("model",)
ROOMS: dict[str, tuple[str, ...]] = {
    "model": (),
    "catalogue": MODEL,
    "schedules": MODEL,
    "workspace": (*MODEL, "catalogue"),
    "bus": MODEL,
    "tracking": (*MODEL, "bus.contract"),
    "polling": (*MODEL, "catalogue", "workspace", "tracking", "bus.contract"),
    "listening": MODEL,
    "callbacks": (*MODEL, "listening", "catalogue", "workspace", "tracking", "bus.contract"),
    "alerting": (*MODEL, "catalogue", "schedules", "tracking.live_state", "bus.contract"),
    "outputs": (*MODEL, "bus.contract", "tracking.live_state"),
    "web": (
        *MODEL,
        "schedules",
        "catalogue",
        "listening",
        "tracking.live_state",
        "alerting",
        "outputs.metrics",
        "outputs.cloudevents",
        "outputs.payload_schemas",
        "outputs.dead_letters.LetterAction",
        "outputs.dead_letters.LettersProcessed",
        "outputs.replaying.Replayed",
        "bus.contract",
        "bus.shards.SOLE",
        *(f"bus.shards.{name}" for name in ("ClusterStatus", "DaemonRecord", "ShardRecord")),
    ),
    "config": (*MODEL, "schedules", "*.settings", "outputs.records"),
    "logs": MODEL,
    "supervisor": MODEL,
    "app": ("*", "!cli", "!sandbox"),
    "cli": ("*",),
    "sandbox": ("catalogue", "schedules", "model.clock", "model.triggers"),
}

# Library -> the rooms that are its homes. "any" means that it is handed in, never configured.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "aiohttp": ("workspace", "listening", "callbacks", "web", "outputs", "sandbox", "cli"),
    "sqlite3": ("bus",),
    "asyncpg": ("bus",),
    "aiomqtt": ("outputs",),
    "paho": ("outputs",),
    "amqtt": ("cli",),
    "aiosmtpd": ("cli",),
    "jinja2": ("web", "outputs"),
    "apprise": ("outputs",),
    "argon2": ("web",),
    "authlib": ("web",),
    "joserfc": ("web",),
    "requests": ("web",),
    "markdown_it": ("web",),
    "typer": ("cli",),
    "rich": ("cli",),
    "cronsim": ("schedules",),
    "holidays": ("model",),
    "fastdigest": ("alerting",),
    "yarl": ("workspace", "callbacks", "web", "outputs", "sandbox", "cli"),
}

# Names that only their home may use, although the library itself may be imported anywhere.
HOMES_OF_NAMES = {
    "structlog.configure": ("logs",),
    "generate_latest": ("outputs",),
}

# In polling, each kind of run is a folder of its own, above what all of them share.
KINDS_OF_RUNS = ("job_groups", "flow_runs", "plan_runs")
SHARED_BY_KINDS = ("poll_loop", "lists", "details", "links", "reasons", "run_observations")

# Judged by what they are given: no I/O, no clock, no bus, no waiting. They import each other, and
# of other rooms and libraries only what is named here.
PURE = (
    *(
        f"alerting.alerts.{name}"
        for name in ("acknowledging", "added_evidence", "instance", "lifecycle")
    ),
    "alerting.rules",
    *(
        f"model.{name}"
        for name in ("alert_texts", "alerts", "ends", "errors", "events", "globs", "inventory")
    ),
    *(
        f"model.{name}"
        for name in ("live_state", "observations", "runs", "secrets", "settings", "suggestions")
    ),
    *(f"model.{name}" for name in ("days_off", "mute_windows", "silencing")),
    "model.triggers",
    *(f"model.{name}" for name in ("outage_words", "overall_health", "poll_outcomes")),
    "model.words",
    "schedules",
    *(
        f"tracking.{name}"
        for name in ("kept_ends", "live_state", "detail_merge", "pipeline_directory")
    ),
    *(f"tracking.{name}" for name in ("reachability_history", "event_derivation")),
    *(f"tracking.{name}" for name in ("status_decision", "transitions")),
)
# Words of the bus contract that say how the store is; a rule is given them.
PURE_WORDS = {
    f"bus.contract.{name}"
    for name in ("ConsumerStatus", "Retention", "StoreStatus", "WAITING_CONSUMERS")
}
PURE_LIBRARIES = (
    *("__future__", "bisect", "calendar", "collections", "copy", "dataclasses", "datetime"),
    *("difflib", "enum", "fnmatch", "functools", "hashlib", "heapq", "itertools", "math", "re"),
    *("hmac", "statistics", "string", "types", "typing", "zoneinfo", "importlib.import_module"),
    *("cronsim", "fastdigest", "msgspec"),
)
READS_OUTSIDE = {"open", "print", "input", "datetime.now", "datetime.utcnow", "date.today"}


def modules() -> list[Path]:
    """Return every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    """Return the room, or the top-level module, that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def within_package(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def imports_of(path: Path) -> list[str]:
    """Return every dotted name that a file imports, ``from x import y`` as ``x.y`` too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.extend(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def is_allowed(room: str, target: str) -> bool:
    """True when ``room`` may import ``target``, a dotted name below the package."""
    own = target.split(".", maxsplit=1)[0] == room
    if own:
        return True
    rules = ROOMS[room]
    if any(rule[0] == "!" and target.split(".", maxsplit=1)[0] == rule[1:] for rule in rules):
        return False
    for rule in rules:
        if rule == "*":
            return True
        if rule == "*.settings" and "settings" in target.split(".")[1:]:
            return True
        if target == rule or target.startswith(rule + "."):
            return True
    return False


def test_a_room_imports_only_rooms_before_it() -> None:
    """No import points against the flow, and no room is missing in the table."""
    rooms = {room_of(path) for path in modules()} - {"__init__"}
    assert rooms - set(ROOMS) == set()
    forbidden = [
        f"{within_package(path)}: {name}"
        for path in modules()
        for name in imports_of(path)
        if name.startswith("monitor.")
        and not name.startswith("monitor.__")
        and not is_allowed(room_of(path), name.removeprefix("monitor."))
    ]
    assert forbidden == []


def test_a_library_is_imported_in_its_rooms_only() -> None:
    """A library is imported only in the rooms that are its homes."""
    forbidden = [
        f"{within_package(path)}: {name}"
        for path in modules()
        for name in imports_of(path)
        if (homes := LIBRARIES.get(name.split(".")[0])) is not None and room_of(path) not in homes
    ]
    assert forbidden == []


@pytest.mark.parametrize(("name", "homes"), HOMES_OF_NAMES.items())
def test_set_up_happens_in_one_room(name: str, homes: tuple[str, ...]) -> None:
    """Logging is configured, and metrics are rendered, in one room each."""
    users = {room_of(path) for path in modules() if name in path.read_text()}
    assert users <= set(homes)


def functions_in(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a tree; statements hold them, and no expression does."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from functions_in(child)


def test_files_and_functions_stay_small() -> None:
    """No file passes 400 lines and no function 60."""
    too_large: list[str] = []
    for path in [*modules(), *sorted(Path(__file__).parent.rglob("*.py"))]:
        text = path.read_text()
        lines = text.count("\n")
        if lines > 400:
            too_large.append(f"{path.name}: {lines} lines")
        for function in functions_in(ast.parse(text)):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > 60:
                too_large.append(f"{path.name}: {function.name} has {length} lines")
    assert too_large == []


def test_no_file_has_a_vague_name() -> None:
    """A file's name describes its contents."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "stuff"}
    assert [path for path in modules() if path.stem in vague or path.parent.name in vague] == []


def test_the_guide_of_the_code_describes_every_room() -> None:
    """`monitor/README.md` has a row for each room, and none for a removed room."""
    table = (PACKAGE / "README.md").read_text().partition("## The rooms")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(described) == sorted(rooms)


def test_the_guide_of_the_code_names_files_that_exist() -> None:
    """The table of changes is short, and each place in it can be opened."""
    table = (PACKAGE / "README.md").read_text().partition("## Where do I change")[2]
    rows = re.findall(r"^\| (?!change|---)(.+)$", table.partition("\n## ")[0], re.MULTILINE)
    places = re.findall(r"`((?:monitor|tests|deploy)/[\w/.]+)`", "\n".join(rows))
    assert 10 < len(rows) <= 20
    assert [place for place in places if not (PACKAGE.parent / place).exists()] == []


def names_of_modules() -> dict[str, Path]:
    """Return every module by its dotted name; a folder's is that of its ``__init__``."""
    return {
        ".".join(("monitor", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in modules()
    }


def imported_modules() -> dict[str, set[str]]:
    """Return which modules of ours each module imports, in functions and annotations too."""
    by_name = names_of_modules()
    imports: dict[str, set[str]] = {name: set() for name in by_name}
    for name, path in by_name.items():
        for target in imports_of(path):  # a module, or a name in one
            module = target if target in by_name else target.rpartition(".")[0]
            if module in by_name and module != name:
                imports[name].add(module)
    return imports


def circle_in(imports: Mapping[str, Collection[str]]) -> list[str]:
    """Return the names of one circle; none where everything has an order."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Every file can be read after those that it imports, annotations and lazy imports included."""
    assert circle_in(imported_modules()) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    """In every folder, what stands side by side (files, and folders as wholes) has an order."""
    folders: dict[str, dict[str, set[str]]] = {}
    for name, targets in imported_modules().items():
        for target in targets:
            parts, others = name.split("."), target.split(".")
            level = next(i for i, part in enumerate([*parts, ""]) if [*others, ""][i] != part)
            if level < min(len(parts), len(others)):  # else one is the other's own folder
                beside = folders.setdefault(".".join(parts[:level]), {})
                beside.setdefault(parts[level], set()).add(others[level])
    circles = {folder: circle_in(beside) for folder, beside in folders.items()}
    assert {folder: circle for folder, circle in circles.items() if circle} == {}


def test_kinds_of_runs_are_polled_apart() -> None:
    """No kind of run imports another one, and what they share imports none of them."""
    kinds = {f"monitor.polling.{kind}" for kind in KINDS_OF_RUNS}
    shared = {f"monitor.polling.{part}" for part in SHARED_BY_KINDS}
    wrong = [
        f"{name}: {target}"
        for name, targets in imported_modules().items()
        for own in kinds | shared
        for target in targets
        if is_named(name, (own,)) and is_named(target, kinds - {own})
    ]
    assert wrong == []
    assert [part for part in kinds | shared if part not in names_of_modules()] == []


def is_named(name: str, names: Collection[str]) -> bool:
    """True for a dotted name that is among the names, or below any of them."""
    return any(name == other or name.startswith(f"{other}.") for other in names)


def impure_in(path: Path) -> list[str]:
    """Return what a file imports or calls that no rule may."""
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }
    found = list(calls & READS_OUTSIDE)
    for name in imports_of(path):
        ours = name.removeprefix("monitor.")
        if ours == name:
            is_pure = is_named(name, PURE_LIBRARIES)
        else:
            is_pure = is_named(ours, PURE) or ours in PURE_WORDS
        if not is_pure:
            found.append(name)
    return found


def test_rules_are_pure() -> None:
    """A rule judges what it is given: it reaches no I/O, clock, bus or wait, by others neither."""
    impure = {
        within_package(path): found
        for name, path in names_of_modules().items()
        if is_named(name.removeprefix("monitor."), PURE) and (found := impure_in(path))
    }
    assert impure == {}


def test_every_name_of_a_pure_module_exists() -> None:
    """A module that is renamed does not leave the judgement of purity unseen."""
    assert [name for name in PURE if f"monitor.{name}" not in names_of_modules()] == []


def test_no_merge_was_left_unfinished() -> None:
    """No template, document, script or module holds the lines that git leaves in a conflict."""
    marks = tuple(f"{character * 7} " for character in "<>")
    folders = (".github", "config", "deploy", "monitor", "tests")
    files = [
        *(path for path in PACKAGE.parent.iterdir() if path.suffix in (".md", ".toml")),
        *(path for folder in folders for path in (PACKAGE.parent / folder).rglob("*")),
    ]
    texts = [path for path in files if path.is_file() and path.suffix not in (".pyc", ".png")]
    assert len(texts) > 1_000
    assert [
        str(path.relative_to(PACKAGE.parent))
        for path in texts
        if any(line.startswith(marks) for line in path.read_text(errors="replace").splitlines())
    ] == []
