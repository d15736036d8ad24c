"""Access tokens of a workspace: from a file, or refreshed by OAuth."""
