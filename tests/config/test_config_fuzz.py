"""Whatever a file or the environment holds, validation ends with a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.alerting.settings import RuleKind
from monitor.bus.settings import store_path
from monitor.cli.settings_files import validate_file
from monitor.config import ValidationResult
from monitor.config.environment import variable_of
from monitor.config.keys import Kind
from monitor.config.sections import SECTIONS
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.polling.settings import followed_run
from tests.config.settings_tables import everything, validated, workspace

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
NAMES = sorted(
    {name for section in SECTIONS for name in section.written_keys()}
    | {key.name for section in SECTIONS for key in section.keys if key.kind is Kind.SECRET}
    | {section.path.rpartition(".")[2] for section in SECTIONS}
)
TABLES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
FILES = st.dictionaries(
    st.sampled_from(sorted(SECTIONS.below(""))),
    VALUES | TABLES | st.lists(TABLES, max_size=3),
)
VARIABLES = st.dictionaries(
    st.sampled_from(
        [variable_of(section.path, name) for section in SECTIONS for name in section.written_keys()]
        + ["DATAPREP_MONITOR__", "DATAPREP_MONITOR____", "DATAPREP_MONITOR__WORKSPACES__A__URL"]
    ),
    st.text(max_size=10),
    max_size=4,
)


@given(mapping=FILES, environment=VARIABLES)
def test_every_file_is_validated(mapping: dict[str, Any], environment: dict[str, str]) -> None:
    """There is either a configuration or a problem, and each problem is one line."""
    assert_complete(validated(mapping, environment))


def assert_complete(result: ValidationResult) -> None:
    assert (result.configuration is None) == bool(result.problems)
    assert all(len(str(problem).splitlines()) == 1 for problem in result.problems)


@given(changes=TABLES)
def test_a_problem_in_one_workspace_leaves_the_other_alone(changes: dict[str, Any]) -> None:
    """Problems name the workspace that they are in."""
    result = validated({"workspaces": [workspace("a"), {**workspace("b"), **changes}]})
    assert all(problem.key.startswith("workspaces[1]") for problem in result.problems)


def keys_of(path: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return tables of a section's own keys, with any values."""
    names = [
        name for section in SECTIONS if section.path == path for name in section.written_keys()
    ]
    texts = st.text(max_size=8)
    values = VALUES | texts | st.lists(texts, max_size=3) | st.dictionaries(texts, texts)
    instants = st.datetimes() | st.datetimes(timezones=st.timezones())
    return st.dictionaries(st.sampled_from(names), values | instants, max_size=4)


@given(
    rule=keys_of("alerts"),
    match=keys_of("alerts.match"),
    silence=keys_of("silences"),
    webhook=keys_of("webhook"),
    report=keys_of("reports"),
    kind=st.sampled_from(sorted(RuleKind)),
)
def test_every_rule_silence_webhook_and_report_is_validated(
    rule: dict[str, Any],
    match: dict[str, Any],
    silence: dict[str, Any],
    webhook: dict[str, Any],
    report: dict[str, Any],
    kind: str,
) -> None:
    """Any values of their keys: problems or a configuration."""
    mapping = everything()
    mapping["alerts"] = [{"rule": kind, **rule, "match": match}]
    mapping["silences"][0].update(silence)
    mapping["webhook"].update(webhook)
    mapping["reports"][0].update(report)
    assert_complete(validated(mapping))


LEAST = b'[[workspaces]]\nname = "a"\nurl = "https://x.example"\n'
WORDS = st.sampled_from([
    b"[", b"]", b"{", b"}", b"=", b".", b",", b"\n", b'"', b"'", b"#", b"\\", b"0x", b"1", b"-",
    b"inf", b"nan", b"true", b"1979-05-27", b"\\u0000", b"\xff", b"\xef\xbb\xbf", b"workspaces",
    b"[mqtt]", b"url", b"token_file", b"ca_file", b"retries", b"mqtt://", b"sqlite:///", b"/",
])  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200) | st.lists(WORDS, max_size=25).map(b"".join), keep=st.booleans()
)
@example(content=b"a = " + b"[" * 5_000 + b"]" * 5_000, keep=True)
@example(content=b"a = " + b"{a = " * 3_000 + b"1" + b"}" * 3_000, keep=True)
@example(content=b"a" + b".a" * 2_000 + b" = 1", keep=True)
@example(content=b"retries = " + b"9" * 5_000, keep=True)
@example(content=b"retries = 0x" + b"f" * 5_000, keep=True)
@example(content=b"xyzzy = [0x" + b"f" * 5_000 + b"]", keep=True)
@example(content=b'ca_file = "a\\u0000b"', keep=True)
@example(content=b'token_file = "a\\u0000b"', keep=True)
@example(content=b'ca_file = "' + b"a/" * 5_000 + b'"', keep=True)
def test_every_content_of_a_file_is_validated(
    tmp_path: Path, *, content: bytes, keep: bool
) -> None:
    """Whatever bytes a file holds, by itself or below a workspace: problems or a configuration."""
    path = tmp_path / "monitor.toml"
    path.write_bytes(LEAST + content if keep else content)
    assert_complete(validate_file(path, {}))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a = " + b"[" * 5_000, "is nested too deeply; no setting is"),
        (b"\xff", "is not UTF-8; save it as that"),
        (b"#" * 1_048_577, "is too large for a configuration; name another file with -c"),
        (
            b"a = ",
            "is no TOML: Invalid value (at end of document); mend it there",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    """The file is named, and the problem of it as a whole."""
    path = tmp_path / "monitor.toml"
    path.write_bytes(content)
    result = validate_file(path, {})
    assert [str(problem) for problem in result.problems] == [
        f'configuration file: "{path}": {sentence}'
    ]


PATHS = st.text(st.sampled_from("mqtshilepr:/.@%?#[]0 9a\0\n\udcffé-_"), max_size=30)


SCHEMES = ["mqtt://", "mqtts://", "https://", "sqlite:///", "postgresql://", "postgres://a/", ""]


@given(scheme=st.sampled_from(SCHEMES), rest=PATHS)
@pytest.mark.parametrize(
    ("section", "key"),
    [("mqtt", "url"), ("storage", "url"), ("server", "listen"), ("workspaces", "url")],
)
def test_an_address_is_used_as_it_is_written_or_not_at_all(
    section: str, key: str, scheme: str, rest: str
) -> None:
    """An accepted address names a host or a path in the very letters that it was written in."""
    text = scheme + rest
    tables = {"workspaces": [workspace()], section: {key: text}}
    if section == "workspaces":
        tables = {"workspaces": [workspace(url=text)]}
    taken = validated(tables).configuration
    if taken is None:
        return
    assert text.isprintable()
    if section == "mqtt":
        mqtt = taken.output(MqttSettings)
        assert mqtt is not None
        assert mqtt.broker.port > 0
        assert mqtt.broker.host in text.lower()
    elif section == "storage":
        if (address := taken.storage.postgres) is not None:
            assert all(server.host in unquote(text) for server in address.hosts)
            assert all(server.port > 0 for server in address.hosts)
            assert address.database in unquote(text)
            return
        path = store_path(text)
        assert path.is_absolute()
        assert str(path).isprintable()
    elif section == "server":
        assert taken.server.host in text
    else:
        assert taken.workspaces[0].workspace.url == text


@given(text=st.text(st.sampled_from("jobgruplanfw_/1a.-%\0é "), max_size=40) | st.text(max_size=20))
def test_a_followed_run_is_one_id_or_a_problem(text: str) -> None:
    """An entry of ``follow`` that is taken is asked for under exactly that id."""
    for entry in (text, f"job_group/{text}"):
        mapping = {"workspaces": [workspace(poll={"follow": [entry]})]}
        taken = validated(mapping).configuration
        if taken is not None:
            key = followed_run("a", entry)
            assert f"{key.kind}/{key.id}" == entry
            assert quote(key.id, safe="") == key.id
