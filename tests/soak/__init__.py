"""A query that runs for hours: memory, threads, files and requests must stay flat."""
