"""The session and the driver of a running query."""
