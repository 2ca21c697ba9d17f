"""The running query: its coordinator, status, seal, stop and pace."""
