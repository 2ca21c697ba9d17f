"""Ledgers: a target's records of published epochs, in tables or in documents."""
