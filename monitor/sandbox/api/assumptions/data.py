"""What is assumed of connections, datasets and recipes."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="connection-secrets",
        operations=("createConnection", "listConnections", "getConnection"),
        text="Of credentials only who logs in is shown (`username`, `user`, `email`, "
        "`iamRoleArn`, `iamDbUser`), for everybody. They are a list, whether one or several "
        "were sent. A `bucket` is kept among the `params`.",
    ),
    Assumption(
        key="connection-lists",
        operations=("listConnections", "countConnections"),
        text="One finds one's own connections and global ones, an administrator all. "
        "`sharedRole=owner` leaves one's own, another role those of others; `operations` are "
        "`import` and `publish`, by the connector's metadata; `vendors` are separated by commas.",
    ),
    Assumption(
        key="connection-status",
        operations=("getConnectionStatus",),
        text="`SUCCESS` was recorded. What is down answers 200 with `FAILED`: only the fault "
        "`connections_down` makes it so.",
    ),
    Assumption(
        key="connection-use",
        operations=("deleteConnection",),
        text="A connection that a dataset, a publication or another destination uses cannot be "
        "deleted (400).",
    ),
    Assumption(
        key="connectors",
        operations=(
            "getConnectorConfig",
            "getConnectorDefaults",
            "getConnectorOverrides",
            "updateConnectorOverrides",
            "deleteConnectorOverrides",
        ),
        text="A connector is named by its vendor (`postgres`); nine are delivered. Overrides "
        "lie over the defaults: objects key by key, lists and values as a whole. Further ones "
        "are laid over those that are kept; anybody may set and delete them.",
    ),
    Assumption(
        key="dataset-addresses",
        operations=("createImportedDataset", "updateImportedDataset"),
        text="A dataset is a `uri`; a `path` with `bucket` and `type`; a `path` on a "
        "`connectionId`; `jdbcTable` (`tableName`) with `jdbcPath` (`relationalPath`) on a "
        "`connectionId`; or `raw` (`query`) on a `connectionId`. A `name` is required. A change "
        "moves a file or a table, but makes neither into the other.",
    ),
    Assumption(
        key="dataset-places",
        operations=("addImportedDatasetToFlow", "addWrangledDatasetToFlow"),
        text="A dataset has one place in a flow: adding it again answers the same node. A "
        "recipe is not added to its own flow (400).",
    ),
    Assumption(
        key="dataset-use",
        operations=("deleteImportedDataset",),
        text="A dataset that a recipe reads cannot be deleted (400).",
    ),
    Assumption(
        key="schema-refresh",
        operations=("asyncRefreshSchema",),
        text="The task is over at once: the dataset's `updatedAt` moves and no job group "
        "appears. `format` and `headerStrategy` have no effect.",
    ),
    Assumption(
        key="dataset-library",
        operations=("listDatasetLibrary", "countDatasetLibrary"),
        text="`datasetsFilter` is `all`, `imported`, `reference` (recipes that another flow "
        "refers to) or `recipe` (all others). Counts are given by type and as `all`. Tables and "
        "files of a form with columns are schematized; `baseStorage=true` leaves what has no "
        "connection; `flowId` changes the order only; hidden datasets are shown by "
        "`hidden=true` alone.",
    ),
    Assumption(
        key="dataset-subjects",
        operations=("getImportedDataset", "listDatasetLibrary"),
        text="`includeAssociatedSubjects` adds to imported datasets the owner, then as "
        "`readOnly` those who see a flow that reads the data.",
    ),
    Assumption(
        key="recipe-inputs",
        operations=("createWrangledDataset", "getInputDataset", "updateInputDataset"),
        text="The input is shown and accepted as `importedDataset` or `wrangledDataset`, with its "
        "`id`; a reference's id counts as that of its recipe. A recipe of another flow gets a "
        "reference in this one. A recipe without input answers 404, a circle is refused (400). "
        "Without a `name` a new recipe is named after its input.",
    ),
    Assumption(
        key="recipe-patch",
        operations=("patchWrangledDataset",),
        text="`name` and `description` can be changed.",
    ),
    Assumption(
        key="profiles",
        operations=(
            "getProfilingInformationForJobGroup",
            "getProfilingInformationForJobGroupConsistent",
            "getJobGroupPdfResults",
        ),
        text="A complete run made a number of rows that its recipe and its own id decide; in each "
        "column `VALID`, `INVALID` and `EMPTY` sum to it. Numbers have ten buckets between "
        "`min` and `max`, other types a count for each value; both sum to the valid rows. "
        "`profilerRules` is empty. The fault `unfit_values` moves so much of `VALID` to `INVALID`, "
        "of runs that begin under it. The PDF is one page in every state of a run.",
    ),
    Assumption(
        key="run-inputs",
        operations=("getJobGroupInputs",),
        text="A run names the datasets that its recipe read when it began, through all that it "
        "builds upon; parameters in addresses and queries have the values of that run.",
    ),
)
