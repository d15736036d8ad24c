"""Where the access token of a workspace comes from: a file, or refreshes by OAuth."""
