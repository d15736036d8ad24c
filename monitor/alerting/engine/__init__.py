"""The consumer that judges events and the present by the rules."""
