"""The records of a dataflow: members, log, and access to their locations."""
