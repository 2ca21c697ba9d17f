"""The common parts of sinks: epochs, queries, ledger decisions, columns and connections."""
