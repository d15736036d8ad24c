"""The sandbox as the outside sees it: every operation of an edition, over HTTP."""
