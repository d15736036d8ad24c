"""The workspace itself: configuration, transfer of assets, usage, functions."""
