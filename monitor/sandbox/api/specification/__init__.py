"""The document that the workspace serves about itself."""
