"""One module for each kind of rule, and what several kinds share. Pure: no I/O, no clock."""
