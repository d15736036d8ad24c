"""Expected times are written in Quartz or in plain cron, and mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.errors import ConfigurationError
from monitor.schedules.written_cron import quartz_expression


@pytest.mark.parametrize(
    ("text", "quartz"),
    [
        ("0 30 6 ? * MON-FRI", "0 30 6 ? * MON-FRI"),
        ("0 30 6 ? * mon-fri 2026", "0 30 6 ? * MON-FRI 2026"),
        ("0 0 1 * *", "0 0 0 1 * ?"),
        ("*/15 * * * *", "0 */15 * * * ?"),
        ("0 6 * * 0", "0 0 6 ? * SUN"),
        ("0 6 * * 7", "0 0 6 ? * SUN"),
        ("0 6 * * 5-7", "0 0 6 ? * FRI-SUN"),
        ("0 6 * * 0-7", "0 0 6 ? * *"),
        ("0 6 * * */2", "0 0 6 ? * */2"),
        ("0 6 * * 1,3,fri", "0 0 6 ? * MON,WED,FRI"),
        ("0 6 * * 1-5/2", "0 0 6 ? * MON-FRI/2"),
    ],
)
def test_plain_cron_says_the_same_in_quartz(text: str, quartz: str) -> None:
    """Seconds come first there, and Sunday, which plain cron counts as 0 and 7, goes by name."""
    assert quartz_expression(text) == quartz


CRON_PROBLEMS = (
    ("0 25 * * *", "cron hour '25': expected 0 to 23"),
    ("0 6 * foo *", "cron month 'FOO': expected 1 to 12"),
    ("0 6 * jann *", "cron month 'JANN': expected 1 to 12; did you mean JAN?"),
    ("0 0 0 29 2 ? 2027", "never comes true; write a day that there is"),
)


@pytest.mark.parametrize(("text", "sentence"), CRON_PROBLEMS)
def test_a_cron_expression_that_says_nothing_is_refused(text: str, sentence: str) -> None:
    """In the words of the wrong field, with the nearest name of a day or month."""
    with pytest.raises(ConfigurationError) as raised:
        quartz_expression(text)
    assert raised.value.problems == [sentence]


WORDS = st.text(st.sampled_from("0123456789*/-,?LW#MONSUJA"), max_size=6)


@given(text=st.lists(WORDS, min_size=4, max_size=8).map(" ".join) | st.text(max_size=20))
def test_every_text_is_an_expression_or_one_problem(text: str) -> None:
    """An accepted text reads back the same; a refused one gets one sentence."""
    try:
        expression = quartz_expression(text)
    except ConfigurationError as exc:
        problems = exc.problems
    else:
        problems = ["none"]
        assert quartz_expression(expression) == expression
    assert len(problems) == 1
