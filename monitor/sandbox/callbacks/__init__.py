"""What the workspace sends by itself: the callbacks of webhook tasks, and how they go wrong."""
