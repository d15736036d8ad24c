"""Records of the sandbox's world, one file per family; the older ones are in `objects`."""
