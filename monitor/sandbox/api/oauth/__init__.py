"""The token endpoint, beside the operations: access tokens that are refreshed."""
