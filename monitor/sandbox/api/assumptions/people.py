"""What is assumed of people, tokens and AWS settings."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="token-scope",
        operations=("listApiAccessTokens", "getApiAccessToken", "deleteApiAccessToken"),
        text=(
            "Everybody, administrators too, finds their own tokens only; expired ones stay "
            "until they are deleted. `lastUsed` is the time of the last accepted request."
        ),
    ),
    Assumption(
        key="token-lifetime",
        operations=("createAccessToken",),
        text=(
            "`lifetimeSeconds` is at least 1 and at most 100 years, or -1 for a token without "
            "end. The setting `apiAccessTokens.maximumLifetimeSeconds` limits it further; "
            "`apiAccessTokens.enabled` switches the four operations off, which then answer "
            "as unknown routes."
        ),
    ),
    Assumption(
        key="aws-owners",
        operations=("createAwsConfig", "updateAwsConfig", "listAwsConfigs"),
        text=(
            "A configuration is the caller's own, unless an administrator names another "
            "`personId`, or `workspaceId` for one that all share. Lists show one's own and "
            "shared ones, to administrators all. Of a key only the id of `credential` is shown."
        ),
    ),
    Assumption(
        key="aws-roles",
        operations=("createAwsRole", "updateAwsRole", "listAwsRoles", "deleteAwsRole"),
        text=(
            "A role belongs to the newest configuration of its person (or of the workspace), "
            "which is made where there is none. The first role becomes the active one. Dates "
            "that are sent have no effect."
        ),
    ),
    Assumption(
        key="people",
        operations=("listPerson", "getPerson", "getCurrentPerson"),
        text=(
            "Everybody sees all people. `uuid` and `includeStatus` have no effect; another "
            "`workspaceId` than this one is 404. `noLimit=true` lifts the limit. "
            "`maximalPrivileges` are shown where `includePrivileges` asks for them: all, except "
            "that only administrators change functions and the history of all jobs."
        ),
    ),
    Assumption(
        key="dataflow-options",
        operations=(
            "setDataflowOption",
            "setCurrentPersonDataflowOption",
            "setPersonDataflowOption",
        ),
        text=(
            "The body is an object of options, kept for the person and `:type` in place of "
            "earlier ones; the answer is 204. `:type` is any word. Only administrators set "
            "another person's; an unknown address is 404. What `jobGroupDataflowOptions` embeds "
            "begins with the workspace's region and goes on with what the run's creator has set."
        ),
    ),
)
