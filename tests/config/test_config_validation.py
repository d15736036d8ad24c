"""Validation reports every problem at once, or returns typed settings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from monitor.callbacks.settings import SignatureMode
from monitor.catalogue.operations import Edition
from monitor.config import Configuration, LogLevel, config_hash, validate
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from monitor.polling.settings import PollSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.config.settings_tables import (
    CALLBACK_SECRET,
    TOKEN,
    TOKEN_NEEDED,
    file,
    parsed,
    problems,
    with_callbacks,
    workspace,
)


def test_the_least_takes_every_default() -> None:
    """A name, a URL and a token are enough; all else is as the settings types have it."""
    configuration = parsed(file())
    (one,) = configuration.workspaces
    assert one.workspace == WorkspaceSettings(
        name="marketing", url="https://api.example.com", token=Secret(TOKEN)
    )
    assert one.poll == PollSettings()
    assert one.callbacks is None
    assert configuration == Configuration(workspaces=(one,))


def test_every_kind_of_value_finds_its_field() -> None:
    """Numbers, lists, choices, addresses and keys that stand elsewhere reach their settings."""
    configuration = parsed(
        file(
            workspaces=[
                workspace(
                    edition="LE",
                    poll={"active_seconds": 2, "requests_per_minute": 60, "follow": ["plan_run/9"]},
                    callbacks={
                        "secret_file": "/run/secrets/callbacks",
                        "signature": "off",
                        "flows": ["*"],
                        "public_url": "https://monitor.example.com",
                        "detail_wait_seconds": 0,
                    },
                )
            ],
            mqtt={"url": "mqtts://broker", "protocol": "3.1.1", "window": 7},
            server={"listen": "[::1]:0"},
            callbacks={"listen": "0.0.0.0:9000"},
            storage={"retention": {"runs_seconds": 86_400}},
            log={"level": "debug"},
        )
    )
    (one,) = configuration.workspaces
    assert one.workspace.edition is Edition.LE
    assert one.workspace.requests_per_minute == 60.0
    assert (one.poll.active_seconds, one.poll.detail_wait_seconds) == (2.0, 0.0)
    assert one.poll.follow == ("plan_run/9",)
    assert one.callbacks is not None
    assert one.callbacks.secret == Secret(CALLBACK_SECRET)
    assert one.callbacks.signature is SignatureMode.OFF
    mqtt = configuration.output(MqttSettings)
    assert mqtt is not None
    assert (mqtt.protocol, mqtt.window) == (MqttProtocol.V311, 7)
    assert (configuration.server.host, configuration.server.port) == ("::1", 0)
    assert configuration.callbacks is not None
    assert (configuration.callbacks.host, configuration.callbacks.port) == ("0.0.0.0", 9000)  # noqa: S104 - callbacks carry a secret
    assert configuration.log.level is LogLevel.DEBUG


def test_run_memory_has_one_horizon() -> None:
    """The horizon at which tracking and the store forget runs is set by one key."""
    configuration = parsed(file(storage={"retention": {"runs_seconds": 90_000}}))
    assert configuration.tracking.forget_seconds == 90_000
    assert configuration.storage.retention.runs_seconds == 90_000


def test_links_are_looked_up_for_as_long_as_alerts_wait_for_them() -> None:
    """One key says how long both alerting and polling wait for the plan run of a run."""
    configuration = parsed(file(alerting={"parents_wait_seconds": 60}))
    assert configuration.alerting.parents_wait_seconds == 60
    assert [each.poll.link_wait_seconds for each in configuration.workspaces] == [60]


def test_the_store_keeps_callbacks_as_long_as_they_are_waited_for() -> None:
    """A longer wait for confirmation lengthens what the store keeps."""
    configuration = parsed(with_callbacks(give_up_seconds=200_000))
    assert configuration.storage.retention.callbacks_seconds == 200_000


def test_all_problems_come_at_once_with_key_value_and_hint() -> None:
    """One validation names every problem of a file, in one sentence each."""
    with pytest.raises(ConfigurationError) as raised:
        parsed(
            {
                "workspaces": [
                    workspace(name="Bad", url="ftp://x", page_size="many"),
                    workspace(name="bridge", poll={"idle_secs": 5, "ranfor": "recipe"}),
                ],
                "logs": {},
                "storage": {"url": "nats://a:4222"},
            }
        )
    assert raised.value.problems == [
        "logs: (a table): unknown key; did you mean log?",
        (
            'workspaces[0].name: "Bad": use 1 to 63 of a-z, 0-9 and -, not - first; '
            "it is a label and a topic level"
        ),
        (
            'workspaces[0].url: "ftp://x": must be an http or https URL, '
            'such as "https://api.clouddataprep.com"'
        ),
        'workspaces[0].page_size: "many": must be a whole number',
        (
            'workspaces[1].name: "bridge": is reserved for the daemon\'s own topics; '
            "choose another name"
        ),
        "workspaces[1].poll.idle_secs: 5: unknown key; did you mean idle_seconds?",
        'workspaces[1].poll.ranfor: "recipe": must be a list of texts',
        (
            'storage.url: "nats://a:4222": must be sqlite:// and an absolute path, '
            'such as "sqlite:///var/lib/dataprep-monitor/state.db", or a database, such as '
            '"postgresql://monitor@db1,db2/dataprep_monitor"'
        ),
    ]


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ({}, "workspaces: (absent): add a [[workspaces]] with name and url"),
        ({"workspaces": []}, "workspaces: (absent): add a [[workspaces]] with name and url"),
        (
            {"workspaces": workspace()},
            "workspaces: (a table): there may be several: write [[workspaces]]",
        ),
        (file(mqtt=3), "mqtt: 3: must be a table: write [mqtt] above its keys"),
        (
            file(workspaces=[workspace(poll=1)]),
            "workspaces[0].poll: 1: must be a table: write [workspaces.poll] above its keys",
        ),
        (
            file(workspaces=[workspace(active_seconds=5)]),
            "workspaces[0].active_seconds: 5: belongs elsewhere: [workspaces.poll] active_seconds",
        ),
        (file(xyzzy=1), "xyzzy: 1: unknown key; remove it"),
        (
            file(workspaces=[{"url": "https://x.example", "token_file": "/run/secrets/token"}]),
            'workspaces[0].name: (absent): is needed, such as name = "marketing"',
        ),
        (
            file(workspaces=[{"name": "a", "url": "https://x.example"}]),
            f"workspaces[0].token: (absent): {TOKEN_NEEDED}",
        ),
        (
            file(workspaces=[workspace(poll={"active_seconds": True})]),
            "workspaces[0].poll.active_seconds: true: must be a number",
        ),
        (
            file(workspaces=[workspace(poll={"active_seconds": float("nan")})]),
            "workspaces[0].poll.active_seconds: NaN: must be a number",
        ),
        (
            file(workspaces=[workspace(poll={"active_seconds": 0.5})]),
            "workspaces[0].poll.active_seconds: 0.5: must be at least 1 seconds",
        ),
        (
            file(workspaces=[workspace(retries=11)]),
            "workspaces[0].retries: 11: must be at most 10",
        ),
        (
            file(workspaces=[workspace(poll={"follow": ["job/1"]})]),
            (
                'workspaces[0].poll.follow: ["job/1"]: each must be KIND/ID, such as '
                '"job_group/123", "flow_run/7" or "plan_run/9"; job groups and flow runs have '
                "numbers"
            ),
        ),
        (
            file(workspaces=[workspace(ca_file="/missing/ca.pem")]),
            (
                'workspaces[0].ca_file: "/missing/ca.pem": '
                "there is no such file; create it or name another"
            ),
        ),
        (
            file(server={"listen": "localhost"}),
            (
                'server.listen: "localhost": must be HOST:PORT, such as "127.0.0.1:9876" '
                'or "[::1]:9876"; port 0 takes a free one'
            ),
        ),
        (
            file(server={"allow_anonymous": "yes"}),
            'server.allow_anonymous: "yes": must be true or false',
        ),
        (
            file(mqtt={"prefix": "a/#"}),
            'mqtt.prefix: "a/#": must not hold + or # or control characters',
        ),
        (
            file(mqtt={"url": "http://broker"}),
            'mqtt.url: "http://broker": must begin with mqtt:// or mqtts://',
        ),
    ],
)
def test_a_single_problem_is_reported(mapping: dict[str, Any], problem: str) -> None:
    """Each wrong value gives one sentence, and no other problem."""
    assert problems(mapping) == [problem]


@pytest.mark.parametrize("name", ["a", "0", "marketing-2", "a" * 63])
def test_good_workspace_names_are_taken(name: str) -> None:
    """A name is 1 to 63 lower-case letters, digits and hyphens."""
    assert parsed(file(workspaces=[workspace(name)])).workspaces[0].name == name


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a b", "a" * 64, "a\n", "bridge", "ä"])
def test_bad_workspace_names_are_problems(name: str) -> None:
    """Anything else would break a label, a topic or a path."""
    (problem,) = problems(file(workspaces=[workspace(name)]))
    assert problem.startswith("workspaces[0].name: ")


def test_two_workspaces_may_not_share_a_name() -> None:
    """The second workspace of a name has the problem, which names the first."""
    assert problems(file(workspaces=[workspace(), workspace("b"), workspace()])) == [
        'workspaces[2].name: "marketing": is the name of workspaces[0] already; choose another'
    ]


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        (
            file(
                workspaces=[
                    workspace(
                        callbacks={
                            "secret_file": "/run/secrets/callbacks",
                            "public_url": "https://monitor.example.com",
                        }
                    )
                ]
            ),
            (
                'workspaces[0].callbacks.public_url: "https://monitor.example.com": '
                "nothing listens for callbacks; add the section [callbacks]"
            ),
        ),
        (
            with_callbacks(secret_file="/run/secrets/short"),
            (
                "workspaces[0].callbacks.secret: ***: must hold at least 16 characters; "
                "make one with: openssl rand -hex 32"
            ),
        ),
        (
            with_callbacks(signing_secret_file="/run/secrets/short"),
            (
                "workspaces[0].callbacks.signing_secret: ***: must hold at least 16 characters; "
                "make one with: openssl rand -hex 32"
            ),
        ),
        (
            file(server={"token_file": "/run/secrets/short"}),
            (
                "server.token: ***: must hold at least 16 characters; "
                "make one with: openssl rand -hex 32"
            ),
        ),
        (
            file(server={"username": "operator", "password_file": "/run/secrets/short"}),
            (
                "server.password: ***: must hold at least 12 characters; "
                "make one with: openssl rand -hex 32"
            ),
        ),
        (
            with_callbacks(signature="require"),
            (
                'workspaces[0].callbacks.signature: "require": needs the key that is signed with; '
                "add signing_secret_file, or take observe"
            ),
        ),
        (
            file(callbacks={}),
            (
                "callbacks: (a table): no workspace accepts callbacks; "
                "add [workspaces.callbacks] or remove this"
            ),
        ),
        (
            {**with_callbacks(), "callbacks": {"listen": "127.0.0.1:9876"}},
            'callbacks.listen: "127.0.0.1:9876": is the port of [server] already; choose another',
        ),
        (
            file(server={"username": "operator"}),
            'server.username: "operator": has no password; add password_file',
        ),
        (
            file(mqtt={"password_env": "MQTT_PASSWORD"}),
            "mqtt.username: (absent): is needed beside the password; add it",
        ),
        (
            file(workspaces=[workspace(poll={"active_seconds": 60})]),
            "workspaces[0].poll.idle_seconds: 30.0: must not be below active_seconds, which is 60",
        ),
        (
            file(workspaces=[workspace(total_timeout_seconds=20)]),
            (
                "workspaces[0].read_timeout_seconds: 30.0: "
                "must not be above total_timeout_seconds, which is 20"
            ),
        ),
        (
            file(storage={"retention": {"events_count": 3_000, "events_hard_cap": 2_000}}),
            (
                "storage.retention.events_hard_cap: 2000: "
                "must not be below events_count, which is 3000"
            ),
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_problems(
    mapping: dict[str, Any], problem: str
) -> None:
    """Values that are valid alone may still not fit together."""
    assert problems(mapping) == [problem]


@pytest.mark.parametrize("listen", ["0.0.0.0:9876", "[::]:9876", "10.0.0.7:80", "monitor:9876"])
def test_an_open_server_needs_auth(listen: str) -> None:
    """An address that others can reach needs a token, a password, or a clear word."""
    (problem,) = problems(file(server={"listen": listen}))
    assert problem.startswith(f'server.listen: "{listen}"')
    assert "allow_anonymous = true" in problem
    assert not problems(file(server={"listen": listen, "allow_anonymous": True}))
    assert not problems(file(server={"listen": listen, "token_credential": "server-token"}))


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "[::1]:1", "localhost:1", "127.8.8.8:1"])
def test_a_loopback_server_needs_none(listen: str) -> None:
    """An address of this machine alone is open by default."""
    assert not problems(file(server={"listen": listen}))


def test_the_hash_follows_settings_but_not_secrets() -> None:
    """Equal settings have equal hashes, and nothing of a secret is in them."""
    configuration = parsed(file())
    (one,) = configuration.workspaces
    other_token = msgspec.structs.replace(
        configuration,
        workspaces=(
            msgspec.structs.replace(
                one, workspace=msgspec.structs.replace(one.workspace, token=Secret("another"))
            ),
        ),
    )
    assert config_hash(other_token) == config_hash(configuration)
    changed = parsed(file(workspaces=[workspace(poll={"active_seconds": 6})]))
    assert config_hash(changed) != config_hash(configuration)
    assert len(config_hash(configuration)) == 16


def test_all_secrets_can_be_gathered_for_the_log() -> None:
    """Every secret of the configuration is found, wherever it stands, and shown nowhere."""
    configuration = parsed(
        {
            **with_callbacks(signing_secret_file="/run/secrets/token"),
            "mqtt": {"username": "monitor", "password_env": "MQTT_PASSWORD"},
            "server": {"token_credential": "server-token"},
        }
    )
    assert sorted(secret.reveal() for secret in configuration.secrets()) == sorted(
        [TOKEN, TOKEN, CALLBACK_SECRET, "password-of-the-broker", "token-of-the-server"]
    )
    assert TOKEN not in repr(configuration)


def test_without_a_reader_no_secret_is_read() -> None:
    """Validation touches no file and no variable."""
    (problem,) = validate(file(), {}).problems
    assert problem.hint == "nothing can be read from a file here"
