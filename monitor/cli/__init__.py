"""The commands, one file each. What does their work loads when they run, so that help is fast."""

FILE_VARIABLE = "DATAPREP_MONITOR_CONFIG"  # names the configuration where no option does
