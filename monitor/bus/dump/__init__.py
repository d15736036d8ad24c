"""One neutral dump of a store: backup, restore, migration and the move of a workspace."""
