"""Links from runs to the plan runs that started them, and the plans of these."""
