"""The checks of ``doctor``: one file for each subject, each against the real thing."""
