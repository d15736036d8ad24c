"""What is assumed of the workspace's configuration, usage and functions."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

READS = ("getCurrentConfigurationForWorkspace", "getConfigurationForWorkspace")
SCHEMAS = ("getCurrentConfigurationSchema", "getConfigurationSchema")
SAVES = ("saveCurrentWorkspaceConfiguration", "saveWorkspaceConfiguration")
RESETS = ("deleteCurrentWorkspaceConfigurationSettings", "deleteWorkspaceConfigurationSettings")
COMPUTE = ("listComputeUsage", "getTheUsageDetailedReportForThePeriod")
USERS = ("listUserUsagesForProject", "listUserUsagesForEntitlement")
FUNCTIONS = (
    "listUserDefinedFunctions",
    "getUserDefinedFunction",
    "deleteUserDefinedFunction",
    "countUserDefinedFunctions",
    "getListOfRecipesUsingThisFunction",
    "getCountOfAllFlowsAndRecipesUsingThisFunction",
)

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="configuration-form",
        operations=(*READS, *SCHEMAS, *SAVES),
        text=(
            "The configuration is an object of values by key, the schema an object of `type`, "
            "`default`, `description` and, where they apply, `secret`, `enum`, `minimum` and "
            "`maximum` by key. Saving answers the saved keys with their values. Which settings "
            "there are is this workspace's own choice."
        ),
    ),
    Assumption(
        key="configuration-rights",
        operations=(*READS, *SAVES, *RESETS),
        text=(
            "Everybody reads the configuration, administrators change it (403 for others). "
            "Secret values are shown to administrators; others read asterisks. An unknown key or "
            "a value of another type is 400, and then nothing is saved. The only workspace has "
            "id 1; another is 404."
        ),
    ),
    Assumption(
        key="configuration-reset",
        operations=RESETS,
        text="`numberOfRowsDeleted` counts the settings that somebody had saved.",
    ),
    Assumption(
        key="configuration-effects",
        operations=SAVES,
        text=(
            "Settings of access tokens, `webhooks.maximumPerFlow` and `dataflow.defaultRegion` "
            "act; the others are kept and shown."
        ),
    ),
    Assumption(
        key="transfer",
        operations=("transferUserAssetsInCurrentWorkspace",),
        text=(
            "The body names `fromPersonId` and `toPersonId`, or `fromEmail` and `toEmail`. Only "
            "administrators transfer (403 for others). Everything that the person made changes "
            "its owner, schedules and deleted things too. Runs and snapshots go on naming who "
            "started them; tokens and AWS settings stay with their person."
        ),
    ),
    Assumption(
        key="usage-period",
        operations=(*COMPUTE, *USERS),
        text=(
            "`:from` and `:to` are dates, instants or epoch milliseconds, in UTC where no zone "
            "is given. The period ends before `:to`, but a date there includes its day. A job "
            "counts where it began, once it is over. Runs that the workspace has forgotten do "
            "not count. Everybody may read usage."
        ),
    ),
    Assumption(
        key="usage-compute",
        operations=COMPUTE,
        text=(
            "`computeSeconds` is the time that jobs worked. Compute usage has a row for each "
            "day and engine, the detailed report one for each job group; both carry the same "
            "totals. Jobs without an engine of their own count for `photon`."
        ),
    ),
    Assumption(
        key="usage-users",
        operations=USERS,
        text=(
            "There is a row for each person; `users` counts those who ran something. The only "
            "project is `sandbox`, the only entitlement `sandbox-entitlement`; others are 404."
        ),
    ),
    Assumption(
        key="functions",
        operations=FUNCTIONS,
        text=(
            "Functions come with the workspace. They show their name, language, types of inputs "
            "and output. Everybody sees them and the recipes that use them; their maker and "
            "administrators delete them, and recipes then lose them. Usage counts `flows` and "
            "`recipes`. Lists have no pages."
        ),
    ),
)
