"""Packages: exports as ZIP files, and their import."""
