"""Events as lines of a file, for log shippers."""
