"""The files of ``config/`` are complete, true and usable."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from msgspec import Meta

from monitor.alerting.settings import RuleKind
from monitor.config import Configuration, SecretSource, parse_configuration
from monitor.config.__main__ import main
from monitor.config.keys import Kind, setting_of
from monitor.config.reference import json_schema, reference_toml, rules_table, schema_text
from monitor.config.section import Section
from monitor.config.sections import SECTIONS
from monitor.model.secrets import Secret
from tests.config.settings_tables import CHANNEL_URL, WEBHOOK_SECRET

SCRIPTS = Path(sys.executable).parent
FOLDER = Path(__file__).parent.parent.parent / "config"


class AnyPlaces:
    """Every secret and every file is there."""

    def read_secret(self, source: SecretSource) -> Secret:
        for word, secret in (("webhook", WEBHOOK_SECRET), ("channel", CHANNEL_URL)):
            if word in source.location.lower():
                return Secret(secret)
        return Secret(f"a secret from {source.location}")

    def find_file(self, path: str) -> str:
        return path


def parsed(text: str) -> Configuration:
    return parse_configuration(tomllib.loads(text), {}, locations=AnyPlaces())


def test_the_reference_is_the_one_that_the_code_makes() -> None:
    """``python -m monitor.config config`` would change nothing."""
    assert (FOLDER / "monitor.toml").read_text() == reference_toml()
    assert (FOLDER / "monitor.schema.json").read_text() == schema_text()


def test_the_generated_files_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    """The generator writes both files into a folder, and refuses to guess which."""
    assert main([str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "monitor.schema.json",
        "monitor.toml",
    ]
    assert main([]) == 2


def test_the_reference_names_every_key_once() -> None:
    """Each section holds each of its keys, set or as an example."""
    for section in SECTIONS:
        head = re.escape(f"[{section.path}]")
        block = re.search(
            rf"^#?\[?{head}\]?\n(.*?)(?=^#?\[|\Z)", reference_toml(), re.MULTILINE | re.DOTALL
        )
        assert block is not None
        names = re.findall(r"^#?(\w+) = ", block[1], re.MULTILINE)
        assert names == section.written_keys(), section.path


def test_the_reference_can_be_used_and_changes_no_default() -> None:
    """It is valid as it stands and equals a file that sets nothing."""
    text = (FOLDER / "monitor.toml").read_text()
    configuration = parsed(text)
    (one,) = configuration.workspaces
    least = parsed((FOLDER / "minimal.toml").read_text())
    assert one.poll == least.workspaces[0].poll
    # One has its token in the place of a container's secrets, the other beside itself.
    token = one.workspace.token
    assert msgspec.structs.replace(least.workspaces[0].workspace, token=token) == one.workspace
    assert configuration == msgspec.structs.replace(
        least, workspaces=configuration.workspaces, callbacks=configuration.callbacks
    )


LINES = reference_toml().splitlines()

# What else is needed for an example: of a rule that is not the one of the reference, or of a key
# of one section.
NEEDED = {
    "window_seconds": {"rule": '"callbacks_missed"'},
    "expect": {"rule": '"schedule_missed"', "#name": '"orders_missed"', "pipeline": '"Orders"'},
    "expect_timezone": {"rule": '"schedule_missed"', "#name": '"orders_missed"'},
    "deadline": {"rule": '"deadline_missed"', "#name": '"orders_late"', "pipeline": '"Orders"'},
    **{
        name: {
            "rule": '"deadline_missed"',
            "#name": '"orders_late"',
            "#deadline": '"07:00"',
            "pipeline": '"Orders"',
        }
        for name in ("deadline_timezone", "deadline_days", "counts", "counts_from")
    },
    "user_header": {"trusted_proxies": '["192.0.2.7"]'},
    "groups_header": {
        "trusted_proxies": '["192.0.2.7"]',
        "#user_header": '"X-Forwarded-User"',
    },
    "holidays": {"rule": '"schedule_missed"', "#name": '"orders_missed"'},
    "holiday_dates": {"rule": '"schedule_missed"', "#name": '"orders_missed"'},
    **{
        f"workspaces.callbacks.former_secret_{form}": {
            "#former_secret_expires_at": "2027-11-23T00:00:00Z"
        }
        for form in ("file", "env", "credential", "command")
    },
    "notify.holidays": {"#mute": '["holidays UTC"]'},
    "notify.holiday_dates": {"#mute": '["holidays UTC"]'},
}

# Nothing recognises an entry without one of three keys.
NEEDED_IN = {"access": {"#users": '"ada"'}}


def section_at(at: int) -> tuple[int, Section]:
    """Return the line of the head above a line, and the section."""
    head = next(number for number in range(at, -1, -1) if re.match(r"#?\[", LINES[number]))
    path = LINES[head].strip("#[]")
    return head, next(section for section in SECTIONS if section.path == path)


def in_force(section: Section, lines: list[str]) -> list[str]:
    """Return the lines from the head of a section on, with what the section needs in force."""
    needed = {key.name for key in section.keys if key.is_required}
    heads = [n for n, line in enumerate(lines) if re.match(r"#?\[", line)]
    end = heads[1] if len(heads) > 1 else len(lines)
    for index, line in enumerate(lines[:end]):
        written = line[1:].split(" = ", maxsplit=1)[0]
        if index == 0 or {written, written.removesuffix("_file")} & needed:
            lines[index] = line.removeprefix("#")
    return lines


def put_in_force(at: int) -> list[str]:
    """Return the reference with one line after a # in force, and whatever that line needs."""
    lines = list(LINES)
    head, section = section_at(at)
    name = lines[at][1:].split(" = ", maxsplit=1)[0]
    if section.is_example:
        lines[head : at + 100] = in_force(section, lines[head : at + 100])
    outer, dot, _ = section.path.partition(".")
    if dot and f"#[[{outer}]]" in LINES:  # a part of the table above it
        above = LINES.index(f"#[[{outer}]]")
        lines[above:head] = in_force(SECTIONS.find(outer) or section, lines[above:head])
    lines[at] = LINES[at].removeprefix("#")
    # Another form of the same secret makes way.
    base = re.sub(r"_(file|env|credential|command)$", "", name)
    for index in range(max(0, at - 3), at):
        if re.match(rf"{base}_(file|env|credential|command) ", lines[index]):
            lines[index] = ""
    if section.path == "workspaces.oauth":
        lines = [line for line in lines if not line.startswith("token_file")]
    # A password and a username each need the other.
    for pair, other in (("password", "username"), ("username", "password_env")):
        if base == pair and section.key("username") is not None:
            lines[head] += f'\n{other} = "ANOTHER"'
    if name == "key_file" and section.path == "mqtt":
        lines[head:at] = [line.replace("#certif", "certif") for line in lines[head:at]]
    needed = NEEDED.get(f"{section.path}.{name}", NEEDED.get(name, {}))
    for key, value in {**NEEDED_IN.get(section.path, {}), **needed}.items():
        starts = (f"{key} = ", f"{key.removeprefix('#')} = ")
        index = next(n for n in range(head, len(lines)) if lines[n].startswith(starts))
        lines[index] = f"{key.removeprefix('#')} = {value}"
    return lines


@pytest.mark.parametrize("at", [n for n, line in enumerate(LINES) if re.match(r"#\w+ = ", line)])
def test_every_example_can_be_used(at: int) -> None:
    """Each line after a # may be put in force, in place of another form of the same secret."""
    assert parsed("\n".join(put_in_force(at)))


def test_the_least_runs_and_hides_nothing() -> None:
    """``minimal.toml`` is valid."""
    assert parsed((FOLDER / "minimal.toml").read_text()).outputs


@pytest.mark.parametrize("section", SECTIONS, ids=lambda character: character.path)
def test_every_limit_is_checked(section: Section) -> None:
    """A field that only the code sets has no limits, since nothing would look at them."""
    for field in msgspec.structs.fields(section.settings):
        marks = getattr(field.type, "__metadata__", ())
        assert not any(isinstance(mark, Meta) for mark in marks) or setting_of(field), field.name


@pytest.mark.parametrize("section", SECTIONS, ids=lambda character: character.path)
def test_every_default_is_allowed(section: Section) -> None:
    """A default passes its own check and limits, and a key that may be left out has one."""
    for key in section.keys:
        default = key.default
        if default is None:
            assert key.is_required or key.setting.example is not None, key.name
            continue
        assert key.kind.fits(default), key.name
        assert key.check is None or key.check(default) is None, key.name
        assert key.minimum is None or key.minimum <= default, key.name
        assert key.maximum is None or default <= key.maximum, key.name


@pytest.mark.parametrize("section", SECTIONS, ids=lambda character: character.path)
def test_names_carry_their_unit(section: Section) -> None:
    """A duration or a size says so in its name and in its description."""
    for key in section.keys:
        for ending, unit in (("_seconds", "seconds"), ("_bytes", "bytes")):
            assert key.name.endswith(ending) == (key.unit == unit), key.name
        assert key.about.endswith("."), key.name
        if key.kind in (Kind.NUMBER, Kind.WHOLE):
            assert key.minimum is not None, key.name
            assert key.maximum is not None, key.name


def test_the_schema_knows_what_validation_knows() -> None:
    """Every section and key of the table is in the schema, and nothing else is allowed."""
    schema = json_schema()
    assert schema["additionalProperties"] is False
    for section in SECTIONS:
        table = schema
        for part in section.path.split("."):
            table = table["properties"][part]
            table = table.get("items", table)
        below = {
            other_section.path.rpartition(".")[2]
            for other_section in SECTIONS
            if other_section.path.rpartition(".")[0] == section.path
        }
        assert set(table["properties"]) - below == set(section.written_keys())
        assert table["additionalProperties"] is False
    assert json.loads(schema_text()) == json.loads(json.dumps(schema))


def test_the_readme_names_every_section() -> None:
    """The page beside the files does not forget a section."""
    text = (FOLDER / "README.md").read_text()
    assert [section.path for section in SECTIONS if f"[{section.path}]" not in text] == []


@pytest.mark.parametrize("row", rules_table(), ids=lambda row: row[2:22])
def test_the_readme_describes_every_rule(row: str) -> None:
    """When it fires, its numbers with their defaults, and the fields of its templates."""
    assert row in (FOLDER / "README.md").read_text().splitlines()


def test_the_table_of_rules_is_written_into_the_readme(tmp_path: Path) -> None:
    """The generator replaces the table and nothing else; it needs no README."""
    text = (FOLDER / "README.md").read_text()
    readme = tmp_path / "README.md"
    readme.write_text(text.replace("A run failed;", "It is not so;"))
    assert main([str(tmp_path)]) == 0
    assert readme.read_text() == text
    assert len(rules_table()) == len(RuleKind) + 2


def examples() -> list[str]:
    """Return a whole file for each block of settings in the page."""
    blocks = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    least = (FOLDER / "minimal.toml").read_text()
    files = [f"{least}\n{block}" for block in blocks]
    # Refreshed tokens stand in the place of a token.
    without = re.sub(r"(?m)^token_file = .*$", "", least)
    return [
        text.replace(least, f"{without}") if "[workspaces.oauth]" in text else text
        for text in files
    ]


def test_the_examples_of_the_readme_can_be_used() -> None:
    """Each block of settings is valid."""
    assert len(examples()) == 12
    assert all(parsed(text) for text in examples())


def test_an_editor_finds_nothing_wrong_in_what_can_be_used(tmp_path: Path) -> None:
    """The schema takes reference, least and examples, and refuses a kind that there is not."""
    files = [FOLDER / "monitor.toml", FOLDER / "minimal.toml"]
    for number, text in enumerate(examples()):
        files.append(tmp_path / f"{number}.toml")
        files[-1].write_text(text)
    wrong = tmp_path / "wrong.toml"
    rule = next(text for text in examples() if '"failing_repeatedly"' in text)
    wrong.write_text(rule.replace('"failing_repeatedly"', '"failing"'))

    assert schema_check(*files).returncode == 0
    assert "'failing' is not one of" in schema_check(wrong).stdout


def schema_check(*files: Path) -> subprocess.CompletedProcess[str]:
    command = (SCRIPTS / "check-jsonschema", "--schemafile", FOLDER / "monitor.schema.json")
    return subprocess.run(
        (*command, *files), capture_output=True, text=True, check=False, timeout=60
    )
