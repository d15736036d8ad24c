"""Logs are readable on a terminal, JSON elsewhere, and never show a secret."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import assume, given
from hypothesis import strategies as st

from monitor import logs
from monitor.logs import Redactor, names_a_secret
from monitor.model.secrets import Secret
from tests.clocks import ManualClock

TEXT = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Restore the process's logging afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return the JSON lines that were logged."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def set_up(**changes: Any) -> io.StringIO:
    """Configure logging into a stream of its own and return that."""
    stream: io.StringIO = changes.pop("stream", None) or io.StringIO()
    logs.configure(stream=stream, clock=ManualClock(), **changes)
    return stream


def test_a_line_is_json_without_a_terminal() -> None:
    """Without a terminal each event is one JSON object with time, level and values."""
    stream = set_up()
    structlog.get_logger().info("run ended", run="7", seconds=1.5)
    assert lines(stream) == [
        {
            "event": "run ended",
            "run": "7",
            "seconds": 1.5,
            "level": "info",
            "timestamp": "2026-11-21T10:00:00.000Z",
        }
    ]


def test_a_line_is_readable_on_a_terminal() -> None:
    """On a terminal an event is a sentence with its values after it."""
    stream = set_up(stream=Terminal())
    structlog.get_logger().warning("poll failed", workspace="marketing")
    assert "poll failed" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_the_form_can_be_chosen() -> None:
    """JSON on a terminal and lines in a file can be configured."""
    assert lines(_logged(set_up(stream=Terminal(), form="json")))[0]["event"] == "hello"
    assert "hello" in _logged(set_up(form="console")).getvalue()


def _logged(stream: io.StringIO) -> io.StringIO:
    structlog.get_logger().info("hello")
    return stream


def test_lines_below_the_level_are_left_out() -> None:
    """The level applies to us and to libraries, and a second set-up changes it."""
    stream = set_up(level="warning")
    logger = structlog.get_logger()
    logger.info("quiet")
    logging.getLogger("aiomqtt").info("quiet too")
    logger.warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]
    again = set_up(level="debug")
    logger.debug("now heard")
    assert [line["event"] for line in lines(again)] == ["now heard"]


def test_libraries_log_through_the_same_handler() -> None:
    """A library's record comes out like ours, with its logger's name, and redacted."""
    stream = set_up()
    logging.getLogger("aiohttp.client").warning("sent %s", "Authorization: Bearer abc.def")
    (line,) = lines(stream)
    assert line["logger"] == "aiohttp.client"
    assert line["event"] == "sent Authorization: ***"


@pytest.mark.parametrize("library", ["aiohttp.access", "urllib3.connectionpool"])
def test_lines_of_libraries_about_each_request_are_off(library: str) -> None:
    """They contain whole paths, of callbacks or of channels, so they are never written."""
    stream = set_up(level="debug")
    logging.getLogger(library).info("POST /hooks/marketing/%s", TEXT)
    logging.getLogger(library).debug("POST /services/%s", TEXT)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "key",
    [
        *("token", "Authorization", "X-Monitor-Secret", "mqtt_password", "secretKey"),
        *("tokenValue", "set-cookie", "credentials", "APIKey", "accessToken", "x-api-key"),
    ],
)
def test_keys_that_name_secrets_are_recognised(key: str) -> None:
    """The usual names of secrets are recognised in every way of writing them."""
    assert names_a_secret(key)


@pytest.mark.parametrize(
    "key", ["token_file", "token_env", "task_key", "token_id", "pipeline", "event", "", "expiry"]
)
def test_harmless_keys_stay_readable(key: str) -> None:
    """A key that names a secret, or where it is stored, is no secret."""
    assert not names_a_secret(key)


def test_values_of_secret_keys_are_masked_at_any_depth() -> None:
    """Nested mappings and lists are searched; an absent secret is shown as absent."""
    event = {
        "token": "abc",
        "request": {"headers": [{"Authorization": "Basic eHg6eXk="}, {"X-Api-Key": 12}]},
        "password": None,
        "has_token": True,
        "run": "7",
    }
    assert Redactor()(None, "info", event) == {
        "token": "***",
        "request": {"headers": [{"Authorization": "***"}, {"X-Api-Key": "***"}]},
        "password": None,
        "has_token": True,
        "run": "7",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer xxx", "Bearer ***"),
        ("got 401 for bearer eyJh.bGci.OiJ, giving up", "got 401 for bearer ***, giving up"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("{'Authorization': 'Token abc def'}", "{'Authorization': '***'}"),
        ("mqtts://monitor:p@ss@broker:8883/x", "mqtts://***@broker:8883/x"),
        ("POST /hooks/marketing/s3cret?x=1", "POST /hooks/marketing/***?x=1"),
        ("POST /hooks/marketing", "POST /hooks/marketing"),
        ("https://x.example/a?token=abc&b=1", "https://x.example/a?token=***&b=1"),
        ('{"secretKey": "abc", "url": "x"}', '{"secretKey": "***", "url": "x"}'),
        ("X-Monitor-Secret: abc", "X-Monitor-Secret: ***"),
        ("token_file: /run/secrets/x", "token_file: /run/secrets/x"),
        ("https://api.example/v4/flows", "https://api.example/v4/flows"),
    ],
)
def test_secrets_inside_texts_are_masked(text: str, shown: str) -> None:
    """Headers, URL credentials, callback paths and ``key=value`` are masked inside any text."""
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "spelling",
    [
        'pa"ss\\w\u00f6rd/+ ',
        repr('pa"ss\\w\u00f6rd/+ '),
        json.dumps('pa"ss\\w\u00f6rd/+ '),
        "pa%22ss%5Cw%C3%B6rd%2F%2B%20",
        "pa%22ss%5Cw%C3%B6rd%2F%2B+",
        b'x pa"ss\\w\xc3\xb6rd/+ y',
        {'pa"ss\\w\u00f6rd/+ ': 1},
        [('pa"ss\\w\u00f6rd/+ ',)],
        ValueError('pa"ss\\w\u00f6rd/+ '),
        Secret('pa"ss\\w\u00f6rd/+ '),
    ],
    ids=["plain", "repr", "json", "url", "form", "bytes", "key", "nested", "error", "object"],
)
def test_a_registered_secret_is_masked_in_every_spelling(spelling: object) -> None:
    """Quoted, escaped, encoded or wrapped, a registered secret is found."""
    redactor = Redactor([Secret('pa"ss\\w\u00f6rd/+ ')])
    shown = json.dumps(redactor.value(spelling))
    assert "***" in shown
    assert "ss" not in shown


def test_secrets_in_traces_are_masked() -> None:
    """The text of an error, of its cause and of its source lines is redacted as well."""
    stream = set_up(secrets=[Secret(TEXT)])
    try:
        try:
            raise KeyError(TEXT)  # noqa: TRY301 - the trace is what is tested
        except KeyError as exc:
            raise RuntimeError(f"no luck with Bearer {TEXT}") from exc
    except RuntimeError:
        structlog.get_logger().exception("failed", stack_info=True)
    (line,) = lines(stream)
    assert "RuntimeError: no luck with Bearer ***" in line["exception"]
    assert TEXT not in stream.getvalue()


def test_more_secrets_can_be_registered_later() -> None:
    """A secret that a reload adds is masked from then on."""
    stream = io.StringIO()
    redactor = logs.configure(stream=stream, clock=ManualClock())
    redactor.register(Secret(TEXT))
    structlog.get_logger().info("uses", value=f"x{TEXT}x")
    assert lines(stream)[0]["value"] == "x***x"


def test_masked_neighbours_do_not_spell_another_secret() -> None:
    """The text that is left after masking is searched again."""
    redactor = Redactor([Secret("abcdef"), Secret("x***y")])
    assert redactor.text("xabcdefy") == "***"


def test_a_long_text_keeps_its_two_ends() -> None:
    """A text of unbounded length is cut, and states by how much."""
    shown = Redactor().text("begin " + "x" * 100_000 + " end")
    assert shown.startswith("begin ")
    assert shown.endswith(" end")
    assert len(shown) < 17_000
    assert "characters left off" in shown


def test_a_value_that_contains_itself_is_cut() -> None:
    """A cycle ends after a few levels."""
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    assert json.dumps(Redactor().value(cycle)).count("again") == logs.MAX_DEPTH


def test_a_foreign_text_writes_no_line_of_its_own_on_the_terminal() -> None:
    """Line ends and colours inside values are shown, not obeyed."""
    stream = set_up(stream=Terminal(), level="info")
    structlog.get_logger().info("callback refused", path="/x\n2026 [info] all is well \x1b[31m")
    assert stream.getvalue().count("\n") == 1
    assert "\\n2026" in stream.getvalue()
    assert "\x1b[31mx" not in stream.getvalue()


def test_a_line_that_cannot_be_written_shows_nothing() -> None:
    """When a value breaks the rendering, its record is not dumped instead."""

    class Broken:
        def __repr__(self) -> str:
            raise ValueError(TEXT)

    stream = set_up()
    structlog.get_logger("monitor.x").error("failed", value=Broken(), note=TEXT)
    assert stream.getvalue() == "a log line of monitor.x could not be written\n"


@given(
    secret=st.text(min_size=logs.MIN_LITERAL_CHARACTERS, max_size=40),
    around=st.text(max_size=20),
    form=st.sampled_from(["json", "console"]),
)
def test_a_registered_secret_never_reaches_the_output(secret: str, around: str, form: str) -> None:
    """Wherever a registered secret is in an event, the rendered lines do not contain it."""

    def rendered(text: str) -> str:
        stream = set_up(form=form, secrets=[Secret(secret)])
        logger = structlog.get_logger()
        values = {"plain": text, "nested": [{"deep": text.encode()}], "error": OSError(text)}
        logger.info(f"{around}{text}", **values)  # noqa: G004 - as careless callers do
        logger.info("mapping", mapping={around: {text: repr(text)}})
        logging.getLogger("library").warning("got %r", text)
        return stream.getvalue()

    # A secret that the log's own words spell cannot be distinguished from them.
    assume(secret not in rendered(around))
    assume(json.dumps(secret)[1:-1] not in rendered(around))
    output = rendered(around + secret + around)
    assert secret not in output
    assert json.dumps(secret)[1:-1] not in output


def test_rotated_secrets_are_bounded() -> None:
    """Of one owner the newest are masked, however many have been; of others nothing is lost."""
    redactor = Redactor([Secret("of the configuration")])
    for number in range(5_000):
        redactor.register(Secret(f"access-{number:05}"), Secret(f"refresh-{number:05}"), of="acme")
        redactor.register(of="acme")
    newest, oldest = "refresh-04999 access-04992", "access-00000 refresh-04991"
    assert redactor.text(newest) == "*** ***"
    assert redactor.text(oldest) == oldest
    assert redactor.text("of the configuration") == "***"
    for _ in range(logs.KEPT_GENERATIONS):
        redactor.register(Secret("access-04999"), Secret("refresh-04999"), of="acme")
    assert redactor.text(newest) == "*** ***"  # the same pair again takes no place


def test_a_line_costs_the_same_however_many_secrets_there_are() -> None:
    """Thousands of tokens of many workspaces may not hold up the event loop with each line."""
    few, many = Redactor([Secret("correct-horse")]), Redactor()
    for workspace in range(300):
        for token in range(logs.KEPT_GENERATIONS):
            many.register(Secret(f"{workspace:06}-{token:06}"), of=f"workspace {workspace}")
    line = {"event": "run denied by the workspace", "run": "acme:job_group:7", "reason": "404" * 30}

    def seconds(redactor: Redactor) -> float:
        began = time.process_time()
        for _ in range(50):
            redactor(None, "info", dict(line))
        return time.process_time() - began

    ratio = min(seconds(many) for _ in range(5)) / min(seconds(few) for _ in range(5))
    assert ratio < 10


def test_a_secret_inside_another_leaves_no_rest() -> None:
    """The longer one is masked whole."""
    redactor = Redactor([Secret("abcd")])
    redactor.register(Secret("abcdefgh"), of="acme")
    assert redactor.text("x abcdefgh abcd") == "x *** ***"
