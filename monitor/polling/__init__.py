"""Polls workspaces and hands what it reads to the observer; `poll_list` names every poll."""
