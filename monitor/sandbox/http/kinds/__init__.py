"""Resources as data: what is kept, shown and taken, and what hangs on what."""
