"""Commands that reach a server by its URL, with credentials of their own and no configuration."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from monitor.cli.main import main
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.cli.canned_server import always, other_server
from tests.cli.command_process import CommandProcess, CommandResult
from tests.web.serving import serving
from tests.web.site import Site

TOKEN, PASSWORD = "0123456789abcdef-token", "correct horse battery"
NOWHERE = "http://127.0.0.1:9"  # discard, which no machine serves any more


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    return path


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    settings = ServerSettings(
        listen="127.0.0.1:0",
        token=Secret(TOKEN),
        username="ada",
        password=Secret(PASSWORD),
        wrong_credentials_delay_seconds=0.0,
    )
    async with serving(tmp_path, settings) as site:
        yield site


def line_of(done: CommandResult, code: int = 1) -> str:
    """Return the one line of a refusal."""
    assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1), done.err
    return done.err.rstrip("\n")


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://monitor.invalid", True),
        ("http://user.localhost.invalid:9876/below", True),
        ("https://monitor.invalid", False),
        (NOWHERE, False),
        ("http://localhost:9", False),
    ],
)
def test_credentials_in_the_clear_are_warned_of(
    token_file: Path,
    capsys: pytest.CaptureFixture[str],
    url: str,
    is_warned: bool,  # noqa: FBT001 - drawn by pytest
) -> None:
    """Before a token is sent to another machine without TLS; without a token nothing is said."""
    main(["runs", "--url", url, "--token-file", str(token_file)])
    told = capsys.readouterr().err
    main(["runs", "--url", url])
    untold = capsys.readouterr().err

    assert told.startswith(f"warning: {url}: the token or password is sent") == is_warned
    assert "in the clear" not in untold


async def test_a_token_file_is_all_that_a_command_needs(
    site: Site, token_file: Path, run_command: CommandProcess
) -> None:
    """No configuration is read: there is none."""
    words = ("workspaces", "--url", f"{site.url}/", "--token-file", str(token_file), "--json")
    done = await run_command(*words, config=None)
    assert (done.code, done.err) == (0, "")
    assert [row["workspace"] for row in json.loads(done.out)] == ["acme"]


async def test_a_user_name_and_password_are_taken_too(
    site: Site, password_file: Path, run_command: CommandProcess
) -> None:
    """A server that has basic auth only is reached by it."""
    words = ("--username", "ada", "--password-file", str(password_file))
    done = await run_command("silence", "list", "--url", site.url, *words, config=None)
    assert (done.code, done.err) == (0, "there is no silence\n")


async def test_variables_name_server_and_token(
    site: Site, token_file: Path, tmp_path: Path, run_command: CommandProcess
) -> None:
    """Typed options go first: an URL before an URL, a configuration before both."""
    environment = {
        "DATAPREP_MONITOR_URL": site.url,
        "DATAPREP_MONITOR_TOKEN_FILE": str(token_file),
    }
    done = await run_command("schedules", config=None, environment=environment)
    assert (done.code, done.out) == (0, "")
    elsewhere = await run_command(
        "schedules", "--url", NOWHERE, config=None, environment=environment
    )
    assert f"no daemon answers at {NOWHERE} " in line_of(elsewhere)
    missing = await run_command("schedules", config=tmp_path / "no.toml", environment=environment)
    assert "there is no such file" in line_of(missing, 2)


async def test_credentials_of_variables_go_to_the_server_of_variables_only(
    token_file: Path, password_file: Path, run_command: CommandProcess
) -> None:
    """Another server that is typed gets what is typed with it, and nothing else."""
    received: list[str | None] = []

    async def greedy(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization"))
        return web.json_response({"data": []})

    by_token = {"DATAPREP_MONITOR_TOKEN_FILE": str(token_file)}
    by_password = {
        "DATAPREP_MONITOR_USERNAME": "ada",
        "DATAPREP_MONITOR_PASSWORD_FILE": str(password_file),
    }
    async with other_server(greedy) as url:
        for variables in (by_token, by_password):
            environment = {"DATAPREP_MONITOR_URL": NOWHERE, **variables}
            await run_command("alerts", "--url", url, config=None, environment=environment)
        words = ("--url", url, "--token-file", str(token_file))
        await run_command("alerts", *words, config=None, environment=by_password)
    assert received == [None, None, f"Bearer {TOKEN}"]


async def test_rules_are_tried_on_the_events_of_a_server(
    site: Site, token_file: Path, tmp_path: Path, run_command: CommandProcess
) -> None:
    """For a backtest -c names the rules, so a URL or variable may name the server."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[workspaces]]\nname = "acme"\nurl = "http://a"\ntoken_file = "none"\n')
    environment = {
        "DATAPREP_MONITOR_URL": site.url,
        "DATAPREP_MONITOR_TOKEN_FILE": str(token_file),
    }
    words = ("alerts", "backtest", "--url", site.url, "--token-file", str(token_file))
    for done in (
        await run_command(*words, config=rules),
        await run_command("alerts", "backtest", config=rules, environment=environment),
    ):
        assert "the daemon has recorded no events since then" in line_of(done)
    both = await run_command(*words, "--daemon", str(rules), config=rules)
    assert (both.code, "--daemon: --url names a daemon too" in both.err) == (2, True)


async def test_a_wrong_or_missing_token_has_a_way_out(
    site: Site, tmp_path: Path, run_command: CommandProcess
) -> None:
    """The message names the option; neither token stands in it."""
    (tmp_path / "wrong").write_text("wrong-token-0123456789")
    done = await run_command("runs", "--url", site.url, config=None)
    assert line_of(done).endswith(
        "wants a token or password; add --token-file, or --username and --password-file"
    )
    words = ("runs", "--url", site.url, "--token-file", str(tmp_path / "wrong"))
    line = line_of(await run_command(*words, config=None))
    assert "refuses the token or password of --url" in line
    assert "wrong-token" not in line


async def test_a_redirect_gets_no_token(token_file: Path, run_command: CommandProcess) -> None:
    """The other server is not even asked; its URL stands in the message."""
    asked: list[str | None] = []

    async def greedy(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.json_response({"data": []})

    async with other_server(greedy) as other:

        async def redirect(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other}{request.path}")

        async with other_server(redirect) as url:
            done = await run_command(
                "alerts", "--url", url, "--token-file", str(token_file), config=None
            )
    assert f"a redirect to {other}/api/v1/alerts; name that URL" in line_of(done)
    assert asked == []


async def test_another_server_is_not_taken_for_a_daemon(run_command: CommandProcess) -> None:
    """A page, JSON of another shape, and no JSON at all are each one line, without a trace."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<h1>hello</h1>", content_type="text/html")

    async def broken_json(_: web.Request) -> web.Response:
        return web.Response(text="{", content_type="application/json")

    for handler, words in (
        (page, "answers 200 with text/html, which no dataprep-monitor does: is --url right?"),
        (always({"status": "up"}), "the answer is not that of a dataprep-monitor"),
        (broken_json, "which no dataprep-monitor does: is --url right?"),
    ):
        async with other_server(handler) as url:
            for command in ("runs", "alerts", "pipelines"):
                assert words in line_of(await run_command(command, "--url", url, config=None))


async def test_a_daemon_without_the_route_is_older(
    site: Site, token_file: Path, run_command: CommandProcess
) -> None:
    """A route that it lacks reads differently from an object that it does not know."""
    words = ("--url", f"{site.url}/below", "--token-file", str(token_file))
    line = line_of(await run_command("workspaces", *words, config=None))
    assert "has no /below/api/v1/workspaces: it is older than this command" in line


async def test_tls_is_verified_by_the_authorities_that_are_named(
    certificate: tuple[Path, Path], run_command: CommandProcess, tmp_path: Path
) -> None:
    """An unknown certificate is refused, one that --ca-file names is trusted."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    (tmp_path / "no.pem").write_text("no certificate")
    async with other_server(always({"data": []}), tls) as url:
        words = ("workspaces", "--url", url)
        refused = line_of(await run_command(*words, config=None))
        trusted = await run_command(*words, "--ca-file", str(certificate[0]), config=None)
        wrong = await run_command(*words, "--ca-file", str(tmp_path / "no.pem"), config=None)
    assert "its certificate is not trusted; name its authority with --ca-file" in refused
    assert (trusted.code, trusted.err) == (0, "no workspace is followed\n")
    assert "holds no certificates in PEM form" in line_of(wrong, 2)


async def test_a_server_without_tls_is_recognized(site: Site, run_command: CommandProcess) -> None:
    """HTTPS to a server that speaks http is answered with the way out."""
    url = site.url.replace("http://", "https://")
    line = line_of(await run_command("workspaces", "--url", url, config=None))
    assert "it does not speak TLS; write --url with http://" in line


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (["--url", "monitor.example.com"], ["--url: 'monitor.example.com' is no http or https"]),
        (["--url", "ftp://a"], ["--url: 'ftp://a' is no http or https URL; write one as https://"]),
        (["--url", "http://ada:secret@a"], ["--url: holds a user name; give it with --username"]),
        (["--url", "http://a/?b=c"], ["--url: ends in a query; leave out what follows the path"]),
        (["--url", NOWHERE, "-c", "x"], ["--url: -c is given too, and names a daemon; leave one"]),
        (["--url", NOWHERE, "--token-file", "/no"], ["--token-file: '/no' cannot be read: No"]),
        (["--url", NOWHERE, "--token-file", "/dev/null"], ["must hold the secret alone, in one"]),
        (["--url", NOWHERE, "--username", "a"], ["--username: goes with --password-file; give"]),
        (["--url", NOWHERE, "--ca-file", "/no"], ["--ca-file: '/no': there is no such file"]),
        (["--url", "x", "--token-file", "/no"], ["--url: 'x' is no http", "--token-file: '/no'"]),
        (["-c", "x", "--ca-file", "y"], ["--ca-file: belongs to --url; add that"]),
        (["--output", "xml"], ["'xml' is not one of 'table', 'wide', 'json', 'csv'"]),
        (["--json", "-o", "csv"], ["--json and --output csv are two forms; name one"]),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], words: list[str], problems: list[str]
) -> None:
    """Exit 2 and a line for each problem, without a request; no password is repeated."""
    assert main(["workspaces", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "secret@" not in err
    for problem in problems:
        assert problem in " ".join(err.split())
