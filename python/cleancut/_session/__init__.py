"""The session: configuration, jars, and the connection to the driver."""
