"""Finds the error that a group of failures stands for."""

from __future__ import annotations


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside, however deep the groups are nested."""
    first = failures.exceptions[0]
    return first_failure(first) if isinstance(first, BaseExceptionGroup) else first
