"""What is assumed of every operation."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="token-first",
        text=(
            "The token is checked before the route: without a valid one, an unknown path "
            "answers 401 too. The body of a 401 is the usual envelope with "
            "`UnauthorizedException`."
        ),
    ),
    Assumption(
        key="order-of-lists",
        text=(
            "Runs come newest first, everything else by ascending id, until `sort` says "
            "otherwise. Equal values keep that order."
        ),
    ),
    Assumption(
        key="pages",
        text=(
            "`limit` is at least 1. Only schedules have a largest page (1000). An `offset` "
            "past the end answers an empty page."
        ),
    ),
    Assumption(
        key="reading-by-id",
        text="Reading one object by its id needs no ownership.",
    ),
    Assumption(
        key="unknown-parameters",
        text=(
            "Query parameters that are unknown, or that the operation does not list, are "
            "ignored. An empty value counts as absent."
        ),
    ),
    Assumption(
        key="unknown-fields",
        text=(
            "Unknown names in `fields` are refused (400), where there is a row. Embedded "
            "associations are kept beside the chosen fields. An embedded list is whole unless "
            "its own `limit` says otherwise; an answer embeds at most 100,000 records (400)."
        ),
    ),
    Assumption(
        key="nested-filters",
        text=(
            "Filtering by a nested field is refused (400), where one workspace answered 500 "
            "in 2026."
        ),
    ),
    Assumption(
        key="deleted",
        text=(
            "Deleted objects answer 404 `DataNotFoundException`, never 410; "
            "`includeDeleted=true` shows them where the operation lists that parameter."
        ),
    ),
    Assumption(
        key="quotas",
        text=(
            "Quotas count every request that reached the operation, refused ones excepted, "
            "in windows of a minute that begin with the first request."
        ),
    ),
    Assumption(
        key="content-types",
        text=(
            "A body of another `Content-Type` than the operation takes is 415 "
            "`UnsupportedMediaTypeException`; one without that header is read. `Accept` is "
            "not looked at."
        ),
    ),
    Assumption(
        key="body-limit",
        text="A body too large (1 MiB, a file 16 MiB) is 413 in the usual envelope.",
    ),
    Assumption(
        key="bodies",
        text=(
            "Bodies are validated before the id in the path. Unknown fields are ignored, digits in "
            "a text are an integer, and a body may be missing where nothing in it is required. A "
            "`null` counts as absent, but in a change it gives an optional field its first value "
            "again; PUT too changes only what is sent."
        ),
    ),
    Assumption(
        key="links",
        text=(
            'A body links to another object by its id, `31` or `{"id": 31}`. What does not '
            "exist, or is nothing that the person sees, is refused alike (400, naming the field)."
        ),
    ),
    Assumption(
        key="lists-of-parts",
        text=(
            "Lists without a parameter that widens them show what is one's own, and the parts of "
            "flows and plans that one sees; to an administrator those of all."
        ),
    ),
    Assumption(
        key="rights",
        text=(
            "Only the owner and administrators change an object; a part of a flow or plan may "
            "be changed by collaborators too, not by those who only read (403)."
        ),
    ),
    Assumption(
        key="specification",
        operations=("getOpenApiSpec",),
        text=(
            "The document lists the whole edition, whatever the caller may use. Its schemas "
            "leave room for fields that they do not name, and everything that is not "
            "required may be null."
        ),
    ),
)
