"""What is assumed of output objects and their destinations."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="outputs-of-a-flow",
        operations=(
            "listOutputObjects",
            "countOutputObjects",
            "listWriteSettings",
            "countWriteSettings",
            "listPublications",
            "countPublications",
            "listSqlScripts",
            "countSqlScripts",
        ),
        text=(
            "No parameter widens these lists: they show what lies in flows that one owns or that "
            "are shared; to an administrator everything."
        ),
    ),
    Assumption(
        key="nested-destinations",
        operations=("createOutputObject", "patchOutputObject"),
        text=(
            "Files, tables and SQL in the body are made with the output, all or nothing; in a "
            "patch a list replaces what was there. Options about schema drift are validated and "
            "have no effect. An output stays with its recipe, and what it makes stays with it."
        ),
    ),
    Assumption(
        key="places-of-parameters",
        operations=(
            "createWriteSetting",
            "createPublication",
            "createSqlScript",
            "runJobGroup",
            "runFlow",
            "runPlan",
        ),
        text=(
            "A run parameter stands in a write setting's path, a publication's table or an SQL "
            "script, at each `index` of its `insertionIndices`; `order` decides between equal "
            "ones. Its text is `value.variable.value`, or the value itself; a `timestamp` or "
            "`dateRange` is the date from which the run counts. Parameters of another type than "
            "`path` and `sql` are kept and change nothing. A value stands there with its first "
            "1,024 characters, and a text has at most 100 places. `$env.key` in such a text, or in "
            "the value of a parameter, is the environment parameter's value, unless that is a "
            "secret or there is none."
        ),
    ),
    Assumption(
        key="sql-scripts",
        operations=("createSqlScript", "getJobsForJobGroup"),
        text=(
            "An SQL script is a job of type `sqlexecution`: before all others where its `type` "
            "begins with `pre`, after them otherwise."
        ),
    ),
)
