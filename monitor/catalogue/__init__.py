"""The 186 operations of the workspace API, the editions that offer them, what follows from it."""
