"""Epochs as rows of tables in a database, published by one transaction."""
