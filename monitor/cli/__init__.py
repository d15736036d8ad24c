"""The commands, one file each. Heavy parts are imported inside a command, so that help is fast."""
