"""The checks of ``doctor``: one file for each subject, each asks the real thing."""
