"""Where a dataflow keeps its records: members, log, and the places that it reaches."""
