"""Which cuts of several queries are consistent, and who decides: the coordinator."""
