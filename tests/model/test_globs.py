"""Globs that fit none of the known words: the word that was meant, in a short sentence."""

from __future__ import annotations

import pytest

from monitor.model.globs import fits_some

FLOWS = ("Orders", "Orders weekly", "Sales daily", "12", "Refunds [old]")


@pytest.mark.parametrize(
    ("glob", "problem"),
    [
        ("Ordrs", 'no flow fits "Ordrs"; did you mean Orders?'),
        ("orders*", 'no flow fits "orders*"; did you mean Orders?'),
        ("Saels *", 'no flow fits "Saels *"; did you mean Sales daily?'),
        ("*Refnds [old]*", 'no flow fits "*Refnds [old]*"; did you mean Refunds [old]?'),
        ("!Ordrs", 'no flow fits "Ordrs"; did you mean Orders?'),
        ("x", 'no flow fits "x"; there are Orders, Orders weekly, Sales daily, 12, Refunds [old]'),
        (
            "[x",
            'no flow fits "[x"; there are Orders, Orders weekly, Sales daily, 12, Refunds [old]',
        ),
        ("Orders*", None),
        (
            "*day*",
            (
                'no flow fits "*day*"; there are Orders, Orders weekly, Sales daily, 12, '
                "Refunds [old]"
            ),
        ),
    ],
)
def test_a_glob_that_fits_nothing_names_what_was_meant(glob: str, problem: str | None) -> None:
    """By the case of letters, or by what stands before its first wildcard."""
    assert fits_some([glob], FLOWS, "flow") == problem


def test_thousands_of_words_are_counted() -> None:
    """None of them is near, so one stands for all."""
    words = [f"flow {number}" for number in range(2_000)]
    assert fits_some("zzz", words, "flow") == (
        'no flow fits "zzz"; there are 2,000, such as flow 0'
    )
    assert fits_some("zzz", (), "flow") == 'no flow fits "zzz"; there are none'
