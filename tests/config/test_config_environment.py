"""Variables lie over the file, and one that fits no key does not stay unnoticed."""

from __future__ import annotations

import pytest

from monitor.config.environment import variable_of
from monitor.config.keys import Kind
from monitor.config.sections import SECTIONS
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttSettings
from tests.config.broken_rules import BROKEN_RULES
from tests.config.settings_tables import TOKEN, everything, file, parsed, problems, workspace
from tests.config.wrong_values import out_of_range, wrong_types

P = "DATAPREP_MONITOR__"


def test_variables_win_over_the_file() -> None:
    """Texts, numbers and booleans are set in their own types, in tables of any depth."""
    configuration = parsed(
        file(server={"listen": "127.0.0.1:1"}, storage={"retention": {"events_count": 2_000}}),
        {
            f"{P}SERVER__LISTEN": "127.0.0.1:2",
            f"{P}SERVER__ALLOW_ANONYMOUS": "TRUE",
            f"{P}STORAGE__RETENTION__EVENTS_COUNT": "3000",
            f"{P}STORAGE__COMMIT_TIMEOUT_SECONDS": "2.5",
            "DATAPREP_MONITOR_CONFIG": "not one of these",
            "PATH": "/bin",
        },
    )
    assert configuration.server.port == 2
    assert configuration.server.allow_anonymous is True
    assert configuration.storage.retention.events_count == 3_000
    assert configuration.storage.commit_timeout_seconds == 2.5


SERVICES = "sqlite:///var/lib/dataprep-monitor/state.db"


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"HOME": "/home/ada"}, "sqlite:///home/ada/.local/state/dataprep-monitor/state.db"),
        (
            {"HOME": "/home/ada", "XDG_STATE_HOME": "/srv/state"},
            "sqlite:///srv/state/dataprep-monitor/state.db",
        ),
        (
            {"HOME": "/home/a?b", "XDG_STATE_HOME": "state"},  # a relative one does not count
            "sqlite:///home/a%3Fb/.local/state/dataprep-monitor/state.db",
        ),
        ({"HOME": "/"}, SERVICES),
        ({"HOME": ""}, SERVICES),
        ({}, SERVICES),
        (
            {"HOME": "/home/ada", f"{P}STORAGE__URL": "sqlite:///srv/x.db"},
            "sqlite:///srv/x.db",
        ),
    ],
)
def test_a_store_that_is_not_named_is_in_the_state_folder(
    environment: dict[str, str], url: str
) -> None:
    """Of the user who runs the daemon; a service, whose user has no home, has a folder of its own.

    A store that is named is where it is named.
    """
    assert parsed(file(), environment).storage.url == url
    named = parsed(file(storage={"url": "sqlite:///srv/y.db"}), environment).storage.url
    assert named == (
        "sqlite:///srv/x.db" if f"{P}STORAGE__URL" in environment else "sqlite:///srv/y.db"
    )


def test_a_variable_switches_an_absent_section_on() -> None:
    """A broker can be given to an image whose file names none."""
    assert parsed(file()).outputs == {}
    configuration = parsed(file(), {f"{P}MQTT__URL": "mqtt://broker:1884"})
    mqtt = configuration.output(MqttSettings)
    assert mqtt is not None
    assert str(mqtt.broker) == "broker:1884"


def test_the_url_and_token_of_a_workspace_can_be_set() -> None:
    """The workspace is named in capitals, with an underscore for a hyphen."""
    configuration = parsed(
        file(workspaces=[workspace("a"), workspace("my-team")]),
        {
            f"{P}WORKSPACES__MY_TEAM__URL": "https://other.example.com",
            f"{P}WORKSPACES__MY_TEAM__TOKEN": "another-token",
        },
    )
    first, second = (watched.workspace for watched in configuration.workspaces)
    assert (first.url, first.token) == ("https://api.example.com", Secret(TOKEN))
    assert (second.url, second.token) == ("https://other.example.com", Secret("another-token"))


def test_a_secret_from_the_environment_replaces_every_form_in_the_file() -> None:
    """The variable wins although the file names an unreadable secret in another form."""
    mapping = file(mqtt={"username": "monitor", "password_file": "/missing"})
    configuration = parsed(mapping, {f"{P}MQTT__PASSWORD_ENV": "MQTT_PASSWORD"})
    mqtt = configuration.output(MqttSettings)
    assert mqtt is not None
    assert mqtt.password == Secret("password-of-the-broker")
    configuration = parsed(mapping, {f"{P}MQTT__PASSWORD": "given here"})
    mqtt = configuration.output(MqttSettings)
    assert mqtt is not None
    assert mqtt.password == Secret("given here")


def test_the_file_itself_is_not_changed() -> None:
    """A mapping that was validated with variables can be validated again without them."""
    mapping = file()
    parsed(mapping, {f"{P}WORKSPACES__MARKETING__TOKEN": "x", f"{P}LOG__LEVEL": "debug"})
    assert mapping == file()


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("SERVER__COLOUR", "1", "***: [server] has no such key; remove the variable"),
        (
            "SERVER__LISTENS",
            "x",
            f"***: [server] has no such key; did you mean {P}SERVER__LISTEN?",
        ),
        (
            "MQT__PASSWORD",
            TOKEN,
            f"***: there is no section mqt; did you mean {P}MQTT__PASSWORD?",
        ),
        ("LISTEN", "x", "***: there is no section of that name; remove the variable"),
        ("METRICS__SERIES_BUDGET", "many", '"many": must be a whole number'),
        ("STORAGE__STALL_SECONDS", "soon", '"soon": must be a number'),
        ("STORAGE__STALL_SECONDS", "0", "0.0: must be at least 1 seconds"),
        ("ALERTS__NAME", "x", "***: [[alerts]] cannot be set here; use the file"),
        ("SILENCES__0__AUTHOR", "x", "***: [[silences]] cannot be set here; use the file"),
        ("SERVER__ALLOW_ANONYMOUS", "yes", '"yes": must be true or false'),
        ("SERVER__TOKEN", "", "***: the secret is empty; put it there"),
        (
            "WORKSPACES__OTHER__URL",
            "https://x.example",
            "***: no workspace has that name; configured are: marketing",
        ),
        (
            "WORKSPACES__MARKETING__EDITION",
            "RL",
            "***: of a workspace only url and token can be set here; use the file",
        ),
        (
            "WORKSPACES__MARKETING__URL",
            "ftp://x",
            ('"ftp://x": must be an http or https URL, such as "https://api.clouddataprep.com"'),
        ),
    ],
)
def test_a_wrong_variable_is_a_problem_under_its_own_name(
    variable: str, text: str, problem: str
) -> None:
    """Unknown sections and keys, and values of the wrong type, name the variable."""
    assert problems(file(), {f"{P}{variable}": text}) == [f"{P}{variable}: {problem}"]


def test_a_variable_over_a_broken_section_changes_nothing() -> None:
    """Where the file has no table, only the file's own problem is reported."""
    assert problems(file(mqtt=3), {f"{P}MQTT__URL": "mqtt://broker"}) == [
        "mqtt: 3: must be a table: write [mqtt] above its keys"
    ]


SETTABLE = {
    f"{section.path}.{key.name}": (variable_of(section.path, key.name), key.kind)
    for section in SECTIONS
    if not SECTIONS.is_repeated(section.path)
    for key in section.keys
    if key.kind is not Kind.TEXTS  # a list cannot be set by a variable
}
WORDS = {
    Kind.NUMBER: '"x": must be a number',
    Kind.WHOLE: '"x": must be a whole number',
    Kind.BOOLEAN: '"x": must be true or false',
}


@pytest.mark.parametrize("where", [key for key, (_, kind) in SETTABLE.items() if kind in WORDS])
def test_every_variable_has_a_type(where: str) -> None:
    """A word where the key wants a number or a boolean is reported under the variable's name."""
    variable, kind = SETTABLE[where]

    assert problems(everything(), {variable: "x"}) == [f"{variable}: {WORDS[kind]}"]


@pytest.mark.parametrize(
    "row", [rule for rule in (*out_of_range(), *BROKEN_RULES) if rule[0] in SETTABLE], ids=str
)
def test_every_variable_keeps_the_rules_of_its_key(row: tuple[str, object, str]) -> None:
    """A value that a file may not have a variable may not have either, in the same sentence."""
    where, value, sentence = row
    variable, kind = SETTABLE[where]
    if kind is Kind.NUMBER:
        sentence = sentence.replace(f"{value}:", f"{value}.0:", 1)

    assert problems(everything(), {variable: str(value)}) == [f"{variable}: {sentence}"]


@pytest.mark.parametrize(
    "where", [key for key, (_, kind) in SETTABLE.items() if kind is Kind.SECRET]
)
def test_every_secret_is_validated_wherever_a_variable_says_it_is(where: str) -> None:
    """Empty itself, or read from a location without a name: a problem in the words of the file."""
    variable, _ = SETTABLE[where]
    sentences = {key: sentence for key, _, sentence in wrong_types()}

    assert f"{variable}: ***: the secret is empty; put it there" in problems(
        everything(), {variable: ""}
    )
    for form in ("file", "env", "credential"):
        sentence = sentences[f"{where}_{form}"].replace("5:", '"":', 1)
        named = f"{variable}_{form.upper()}"
        assert f"{named}: {sentence}" in problems(everything(), {named: ""})
