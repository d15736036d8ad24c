"""All that exists in the workspace, and what really happened in it."""
