"""HTTP requests that a workspace sends: accepted when durable, believed when confirmed."""
