"""The records of the world, one file per family; `objects` and `runs` hold the first of them."""
