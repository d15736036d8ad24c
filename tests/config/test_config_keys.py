"""Every key of the file has its cases: a wrong type, and each rule that its value must keep."""

from __future__ import annotations

import pytest

from monitor.config.keys import Kind
from tests.config.broken_rules import BROKEN_RULES
from tests.config.settings_tables import TOKEN_NEEDED, Row, changed, problems, table_of
from tests.config.wrong_values import KEYS, out_of_range, wrong_types


def shown(row: Row) -> str:
    return f"{row[0]}={str(row[1])[:20]!r}"


@pytest.mark.parametrize("row", [*wrong_types(), *out_of_range(), *BROKEN_RULES], ids=shown)
def test_a_wrong_value_gives_exactly_its_sentence(row: Row) -> None:
    """The key, the value and what would be right; and no other problem."""
    where, value, sentence = row

    assert problems(changed(where, value)) == [f"{where}: {sentence}"]


def test_every_check_choice_and_file_is_broken_once() -> None:
    """A new key with a rule of its own fails here until a value that breaks it has its case."""
    ruled = {
        where for where, key in KEYS.items() if key.check or key.choices or key.setting.is_file
    }
    broken = {where for where, _, _ in BROKEN_RULES}
    missing = {where for where, _, sentence in BROKEN_RULES if sentence.endswith("or name another")}

    # What silences match depends on rules and workspaces.
    assert broken - ruled == {"silences[0].matchers", "silences[0].comment", "silences[0].author"}
    assert ruled - broken == {
        where for where, key in KEYS.items() if key.check and key.kind is Kind.SECRET
    }
    assert missing == {where for where, key in KEYS.items() if key.setting.is_file}


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("workspaces[0].name", 'is needed, such as name = "marketing"'),
        ("workspaces[0].url", 'is needed, such as url = "https://api.clouddataprep.com"'),
        ("workspaces[0].token", TOKEN_NEEDED),
        (
            "workspaces[0].oauth.token_url",
            'is needed, such as token_url = "https://pingauth.alteryxcloud.com/as/token"',
        ),
        ("workspaces[0].oauth.client_id", 'is needed, such as client_id = "af08ef5e"'),
        (
            "workspaces[0].oauth.refresh_token",
            (
                "give it as refresh_token_file or refresh_token_env or refresh_token_credential "
                "or refresh_token_command"
            ),
        ),
        (
            "workspaces[0].callbacks.secret",
            "give it as secret_file or secret_env or secret_credential or secret_command",
        ),
        ("access[0].name", 'is needed, such as name = "ada"'),
        ("access[0].role", 'is needed, such as role = "read"'),
        ("status_pages[0].name", 'is needed, such as name = "finance"'),
        (
            "status_pages[0].shows",
            'is needed, such as shows = { "Orders of yesterday" = "marketing/flow/101" }',
        ),
        (
            "server.oidc.issuer",
            'is needed, such as issuer = "https://login.example.com/realms/data"',
        ),
        ("server.oidc.client_id", 'is needed, such as client_id = "dataprep-monitor"'),
        *(
            (f"{listener}.tls.{name}_file", f"is needed, such as {name}_file = {example}")
            for listener in ("server", "callbacks")
            for name, example in (
                ("certificate", '"/etc/dataprep-monitor/tls.crt"'),
                ("key", '"/etc/dataprep-monitor/tls.key"'),
            )
        ),
        ("alertmanager.urls", 'is needed, such as urls = ["http://127.0.0.1:9093"]'),
        ("webhook.url", 'is needed, such as url = "https://hooks.example.com/dataprep"'),
        (
            "file.path",
            'is needed, such as path = "/var/log/dataprep-monitor/events.jsonl"',
        ),
        (
            "webhook.secret",
            "give it as secret_file or secret_env or secret_credential or secret_command",
        ),
        ("notify[0].name", 'is needed, such as name = "data-team"'),
        ("notify[0].url", "give it as url_file or url_env or url_credential or url_command"),
        ("alerts[0].rule", 'is needed, such as rule = "failing_repeatedly"'),
        (
            "silences[0].matchers",
            'is needed, such as matchers = ["workspace=marketing", "pipeline=Orders*"]',
        ),
        ("reports[0].name", 'is needed, such as name = "last-night"'),
        ("reports[0].at", 'is needed, such as at = "0 7 * * 1-5"'),
        ("silences[0].comment", 'is needed, such as comment = "The warehouse moves."'),
        ("silences[0].ends_at", "is needed, such as ends_at = 2026-12-24T18:00:00Z"),
    ],
)
def test_a_needed_key_is_missed(where: str, sentence: str) -> None:
    """Without it the file has one problem, which names the key."""
    mapping = changed(where, None)
    del table_of(mapping, where)[where.rpartition(".")[2]]

    assert problems(mapping) == [f"{where}: (absent): {sentence}"]


def test_nothing_else_is_needed() -> None:
    """A new key that is needed fails here until it is missed above."""
    assert sorted(where for where, key in KEYS.items() if key.is_required) == [
        "access[0].name",
        "access[0].role",
        "alertmanager.urls",
        "alerts[0].rule",
        "callbacks.tls.certificate_file",
        "callbacks.tls.key_file",
        "file.path",
        "notify[0].name",
        "notify[0].url",
        "reports[0].at",
        "reports[0].name",
        "server.oidc.client_id",
        "server.oidc.issuer",
        "server.tls.certificate_file",
        "server.tls.key_file",
        "silences[0].comment",
        "silences[0].ends_at",
        "silences[0].matchers",
        "status_pages[0].name",
        "status_pages[0].shows",
        "webhook.secret",
        "webhook.url",
        "workspaces[0].callbacks.secret",
        "workspaces[0].name",
        "workspaces[0].oauth.client_id",
        "workspaces[0].oauth.refresh_token",
        "workspaces[0].oauth.token_url",
        "workspaces[0].token",
        "workspaces[0].url",
    ]
