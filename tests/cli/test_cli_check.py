"""``check`` reports every fault of a file, or what the file switches on."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from monitor.cli.main import main
from monitor.cli.options import CONFIG_FILE
from monitor.cli.settings_files import load
from monitor.model.errors import ConfigurationError
from monitor.outputs.mqtt.settings import MqttSettings
from tests.cli.doctor_scenario import without_rights

GOOD = """
[[workspaces]]
name = "marketing"
url = "https://api.example.com"
token_file = "secrets/token"

[mqtt]
url = "mqtts://broker.example.com"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a token in it."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("the-token-itself\r\n")
    return tmp_path


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the store, which is not that of the user who tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "dataprep-monitor"


def written(folder: Path, text: str) -> str:
    """Write a configuration and return its path."""
    path = folder / "monitor.toml"
    path.write_text(text)
    return str(path)


def test_a_right_file_is_ok(
    folder: Path, state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stdout shows what is switched on, and the exit code is 0."""
    assert main(["check", "-c", written(folder, GOOD)]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        "ok: 1 workspace (marketing); 17 alert rules; mqtt broker.example.com:8883; "
        f"server 127.0.0.1:9876; callbacks off; store sqlite://{state_folder}/state.db\n"
    )
    assert captured.err == ""
    assert not state_folder.parent.exists(), "checking makes nothing"


def test_the_other_receivers_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Own rules, silences, Alertmanagers and the webhook, whose path may be a secret."""
    (folder / "secrets" / "webhook").write_text(
        "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"
    )
    text = f"""{GOOD}
[alerting]
defaults = false

[[alerts]]
rule = "run_failed"
[alerts.match]
pipeline = "Orders*"

[[silences]]
matchers = ["pipeline=Orders test"]
comment = "A test."
ends_at = 2026-12-24T18:00:00+01:00

[alertmanager]
urls = ["http://am-1:9093", "https://am-2/prefix/"]

[webhook]
url = "https://hooks.example.com/services/T0/B0/secret"
secret_file = "secrets/webhook"
"""
    assert main(["check", "-c", written(folder, text)]) == 0
    assert (
        "; 1 alert rule and 1 silence; mqtt broker.example.com:8883; alertmanager am-1:9093; "
        "alertmanager am-2:443/prefix; webhook hooks.example.com:443; server "
    ) in capsys.readouterr().out


def test_every_fault_has_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All problems go to stderr, one per line as key, value and hint; the exit code is 2."""
    text = GOOD.replace("marketing", "Marketing").replace("secrets/token", "nowhere")
    assert main(["check", "-c", written(folder, f"{text}prefx = 1\n")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split(": ")[:2] for line in captured.err.splitlines()] == [
        ["workspaces[0].name", '"Marketing"'],
        ["workspaces[0].token_file", '"nowhere"'],
        ["mqtt.prefx", "1"],
    ]


def test_a_store_that_cannot_be_used_is_a_problem(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is tried as `run` would use it: key, value, reason and hint; exit code 2."""
    text = f'{GOOD}[storage]\nurl = "sqlite:///proc/monitor/state.db"\n'
    assert main(["check", "-c", written(folder, text)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        'storage.url: "sqlite:///proc/monitor/state.db": /proc/monitor cannot be written: '
    )
    assert captured.err.endswith("; name another file in storage.url\n")
    assert main(["check", "--json", "-c", written(folder, text)]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["key"] == "storage.url"


WITH_KEY = f"""
{GOOD.replace("[mqtt]", "[workspaces.callbacks]")}
[callbacks]
""".replace(
    'url = "mqtts://broker.example.com"',
    'secret_file = "secrets/token"\nsigning_secret_file = "secrets/token"\n',
)


FILE_OF_RUNS = '[file]\npath = "/tmp/events.jsonl"\nevents = ["run.*"]\n'


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ("", "outputs: none: no notifications are sent: no output is configured (add [[notify]], "),
        (FILE_OF_RUNS, "outputs: file: no notifications are sent: file takes no alert that fires "),
        ('[file]\npath = "/tmp/events.jsonl"\n', ""),
        ("[alerting]\nwarn_without_output = false\n", ""),
        ("[alerting]\ndefaults = false\n", ""),
    ],
)
def test_alerts_that_no_output_takes_are_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str], more: str, warned: str
) -> None:
    """Without an output that takes alerts the file is right, and a warning has the way out."""
    without = GOOD.partition("[mqtt]")[0]
    assert main(["check", "-c", written(folder, without + more)]) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {warned}") if warned else err == ""


@pytest.mark.parametrize(
    ("line", "is_warned_of"),
    [
        ("", True),
        ('signature = "observe"', True),
        ('signature = "require"', False),
        ('signature = "off"', False),
    ],
)
def test_a_key_that_protects_nothing_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, *, is_warned_of: bool
) -> None:
    """With observe, which is the default, a wrong signature is accepted; the file is right."""
    path = written(folder, WITH_KEY.replace("[callbacks]", f"{line}\n[callbacks]"))
    assert main(["check", "-c", path]) == 0
    err = capsys.readouterr().err
    expected = (
        'warning: workspaces[0].callbacks.signature: "observe": signing_secret protects nothing'
    )
    assert err.startswith(expected) if is_warned_of else "signature" not in err
    assert main(["check", "--json", "-c", path]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [found["key"] for found in warnings].count(expected.split()[1][:-1]) == is_warned_of


def test_entries_that_let_no_user_in_are_warnings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has expired, whom nothing names, who comes second, and who sees no workspace."""
    entries = [
        'name = "ada"\nrole = "read"\nusers = "ada"\nexpires_at = 2026-01-31T18:00:00Z\n',
        'name = "eve"\nrole = "admin"\nusers = ["eve", "ada"]\ngroups = "staff"\n',
        'name = "sam"\nrole = "read"\nusers = "sam"\nworkspaces = "sales"\n',
    ]
    text = GOOD + "".join(f"[[access]]\n{entry}" for entry in entries)

    assert main(["check", "-c", written(folder, text)]) == 0
    lines = [line.split(": ", 3)[1:] for line in capsys.readouterr().err.splitlines()]
    assert [(key, hint.partition(";")[0]) for key, _, hint in lines] == [
        ("access[0].expires_at", "is over, and the entry lets no user in"),
        ("access[0].users", "nothing names users"),
        ("access[1].users", "nothing names users"),
        ("access[1].groups", "nothing names groups"),
        ("access[1].users", "access[0] has it too, and the first entry that fits counts"),
        ("access[2].users", "nothing names users"),
        ("access[2].workspaces", 'no workspace fits "sales"'),
    ]


def test_the_judgement_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program gets the same as one document on stdout, with the same exit code."""
    assert main(["check", "--json", "-c", written(folder, GOOD)]) == 0
    good = json.loads(capsys.readouterr().out)
    assert (good["ok"], good["problems"], len(good["config_hash"])) == (True, [], 16)
    assert main(["check", "--json", "-c", written(folder, "[mqt]\n")]) == 2
    bad = json.loads(capsys.readouterr().out)
    assert bad["ok"] is False
    assert {"key": "mqt", "value": "(a table)", "hint": "unknown key; did you mean mqtt?"} in (
        bad["problems"]
    )


@pytest.mark.parametrize(
    ("content", "printed"),
    [
        (b"name = \n", "is no TOML: Invalid value (at line 1, column 8)"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"#" * 1_048_577, "is too large"),
    ],
)
def test_a_file_that_is_no_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, printed: str
) -> None:
    """A file that cannot be parsed is one fault that names the file and the place."""
    path = tmp_path / "monitor.toml"
    path.write_bytes(content)
    assert main(["check", "-c", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'configuration file: "{path}": {printed}')


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An absent file is reported with the ways to name another; a folder is no file."""
    assert main(["check", "-c", str(tmp_path / "none: at all.toml")]) == 2
    assert "none: at all.toml" in (printed := capsys.readouterr().err)
    assert "there is no such file; create it or name another, with -c or" in printed
    assert main(["check", "-c", str(tmp_path)]) == 2
    assert "cannot be read (Is a directory)" in capsys.readouterr().err


def test_a_file_that_may_not_be_read_needs_a_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Naming another file would be no way out, so none is spoken of."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "monitor.toml").touch(mode=0o000)
        with without_rights():
            assert main(["check", "-c", f"{name}/monitor.toml"]) == 2
    assert capsys.readouterr().err == (
        f'configuration file: "{name}/monitor.toml": may not be read; '
        "give the user that runs the monitor the right to\n"
    )


def test_a_variable_names_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -c the environment names the file, and variables override it."""
    monkeypatch.setenv("DATAPREP_MONITOR_CONFIG", written(folder, GOOD))
    monkeypatch.setenv("DATAPREP_MONITOR__SERVER__LISTEN", "[::1]:5000")
    assert main(["check"]) == 0
    assert "server [::1]:5000;" in capsys.readouterr().out
    assert str(CONFIG_FILE) == "/etc/dataprep-monitor/monitor.toml"


def test_secrets_come_from_files_variables_and_credentials(folder: Path) -> None:
    """A relative path begins at the file's folder; a line end after the secret is dropped."""
    (folder / "credentials").mkdir()
    (folder / "credentials" / "dataprep").write_text("from-systemd")
    environment = {"TOKEN": "from-env", "CREDENTIALS_DIRECTORY": str(folder / "credentials")}
    tokens = []
    for given in ('token_file = "secrets/token"', 'token_env = "TOKEN"', None):
        line = given or 'token_credential = "dataprep"'
        text = GOOD.replace('token_file = "secrets/token"', line)
        token = load(Path(written(folder, text)), environment).workspaces[0].workspace.token
        assert token is not None
        tokens.append(token.reveal())
    assert tokens == ["the-token-itself", "from-env", "from-systemd"]


EVERY_SECRET = """
ca_file = "$CREDENTIALS_DIRECTORY/ca.crt"
certificate_file = "$CREDENTIALS_DIRECTORY/tls.crt"
key_file = "$CREDENTIALS_DIRECTORY/tls.key"
[server]
token_credential = "server-token"
username = "ada"
password_credential = "server-password"
[server.tls]
certificate_file = "$CREDENTIALS_DIRECTORY/tls.crt"
key_file = "$CREDENTIALS_DIRECTORY/tls.key"
client_ca_file = "$CREDENTIALS_DIRECTORY/ca.crt"
"""


def test_every_file_may_be_a_credential(folder: Path) -> None:
    """Certificates, keys and authorities as well as secrets; only the folder's name is a word."""
    credentials = folder / "credentials"
    credentials.mkdir()
    for name in ("tls.crt", "tls.key", "ca.crt", "server-token", "server-password"):
        (credentials / name).write_text(f"the content of {name}\n")
    path = Path(written(folder, GOOD + EVERY_SECRET))
    loaded = load(path, {"CREDENTIALS_DIRECTORY": str(credentials)})

    assert loaded.server.tls is not None
    mqtt = loaded.output(MqttSettings)
    assert mqtt is not None
    for pair in (loaded.server.tls, mqtt):
        assert pair.certificate_file == str(credentials / "tls.crt")
        assert pair.key_file == str(credentials / "tls.key")
    assert loaded.server.tls.client_ca_file == str(credentials / "ca.crt")
    assert mqtt.ca_file == str(credentials / "ca.crt")
    assert loaded.server.token is not None
    assert loaded.server.token.reveal() == "the content of server-token"


def test_a_file_among_no_credentials_is_a_problem(folder: Path) -> None:
    """Each key that names one says what the unit lacks, as a secret does."""
    path = Path(written(folder, f'{GOOD}ca_file = "$CREDENTIALS_DIRECTORY/ca.crt"\n'))
    with pytest.raises(ConfigurationError) as raised:
        load(path, {})
    (problem,) = raised.value.problems
    assert "add LoadCredential=ca.crt:/path/to/it to its unit" in problem
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load(path, {"CREDENTIALS_DIRECTORY": str(folder)})


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ('token_env = "TOKEN"', "is no variable of the environment"),
        ('token_credential = "x"', "add LoadCredential=x:/path/to/it to its unit"),
        ('token_file = "secrets"', "cannot be read (Is a directory)"),
        ('token_file = "secrets/large"', "is too large for a secret"),
        ('token_file = "secrets/bytes"', "is no text"),
    ],
)
def test_a_secret_that_cannot_be_read_is_a_fault(folder: Path, line: str, printed: str) -> None:
    """Each way of giving a secret hints at a solution when it fails."""
    (folder / "secrets" / "large").write_text("x" * 70_000)
    (folder / "secrets" / "bytes").write_bytes(b"\xff\xfe\xfd")
    path = Path(written(folder, GOOD.replace('token_file = "secrets/token"', line)))
    with pytest.raises(ConfigurationError) as raised:
        load(path, {})
    (problem,) = raised.value.problems
    assert printed in problem


def test_named_files_are_searched(folder: Path) -> None:
    """A certificate file must be there, and its path is made absolute."""
    (folder / "ca.pem").write_text("PEM")
    good = Path(written(folder, f'{GOOD}ca_file = "ca.pem"\n'))
    mqtt = load(good, {}).output(MqttSettings)
    assert mqtt is not None
    assert mqtt.ca_file == str(folder / "ca.pem")
    with pytest.raises(ConfigurationError, match=r"mqtt\.ca_file.*there is no such file"):
        load(Path(written(folder, f'{GOOD}ca_file = "other.pem"\n')), {})
