"""Events for a receiver of webhooks, signed by the rules of Standard Webhooks."""
