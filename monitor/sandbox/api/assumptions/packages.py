"""What is assumed of packages."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

_FLOW_PACKAGES = (
    "getFlowPackage",
    "getFlowPackageDryRun",
    "importPackage",
    "importPackageDryRun",
    "getPlanPackage",
    "importPlanPackage",
)

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="package-format",
        operations=(
            *_FLOW_PACKAGES,
            "importMacroPackage",
            "getMacroPackage",
            "importEnvironmentParametersPackage",
            "getEnvironmentParametersPackage",
        ),
        text=(
            "A package is a ZIP of `package.json` (what it is), `data/*.json` (one table for each "
            "kind of record) and `README.txt`. The vendor's own format is not public and is "
            "refused. What cannot be read is 400 and names `data`. A package is sent as "
            "`application/zip`, or as the part `data` of a form."
        ),
    ),
    Assumption(
        key="package-content",
        operations=_FLOW_PACKAGES,
        text=(
            "A package has all that hangs on a flow: recipes, outputs, webhook tasks with their "
            "secret keys, edges, parameters, notification settings; the datasets, connections "
            "and functions that it uses; and the flows whose recipes it refers to. A plan's has "
            "its nodes, edges and overrides, and its flows. Runs, schedules, folders, people's "
            "rights and the credentials of connections stay behind. Who may not see a flow cannot "
            "export it (403), nor what builds upon it (400)."
        ),
    ),
    Assumption(
        key="package-import",
        operations=("importPackage", "importPackageDryRun", "importPlanPackage"),
        text=(
            "Everything gets a new id and belongs to the importer; names stay, also where "
            "another flow has the same. A connection of the same UUID, a function of the same "
            "name and an equal dataset are used where the importer has them; a new connection is "
            "his alone and has no credentials. `folderId` is where "
            "the flows go. `overrideJsUdfs` gives functions that are here the package's content; "
            "`fromUI` has no effect. The answer shows what was made and maps old ids to new ones."
        ),
    ),
    Assumption(
        key="package-dry-run",
        operations=("importPackageDryRun", "getFlowPackageDryRun"),
        text=(
            "The dry run of an import answers 200 with what an import would answer now, ids "
            "included. The dry run of an export answers 204, or the refusal of the export."
        ),
    ),
    Assumption(
        key="macro-packages",
        operations=("importMacroPackage", "getMacroPackage"),
        text=(
            "The package of a macro holds its name, description, steps and parameters. It is "
            "answered as a ZIP, and everybody in the workspace may fetch it."
        ),
    ),
    Assumption(
        key="environment-parameters",
        operations=(
            "createEnvironmentParameter",
            "listEnvironmentParameters",
            "getEnvironmentParameter",
            "importEnvironmentParametersPackage",
            "getEnvironmentParametersPackage",
        ),
        text=(
            "Keys are unique (400). A value is a secret when it has a key `secret` or its `type` "
            "is `secret`; `hideSecrets` leaves it out of the package. An import takes a ZIP, or "
            'JSON `{"data": [{"overrideKey", "value"}]}`, and gives keys that are here the new '
            "value, except where the package hides it. `usageInfo` is null unless "
            "`includeUsageInfo` asks for it; it counts what mentions `$env.key`."
        ),
    ),
)
