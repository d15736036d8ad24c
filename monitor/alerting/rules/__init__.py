"""Pure conditions, one module for each thing that rules are about."""
