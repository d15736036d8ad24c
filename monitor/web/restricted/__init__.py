"""Holds the sources of page and API to some workspaces: of others nothing is shown or counted."""
