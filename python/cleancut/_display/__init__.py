"""The display of values as tables, in a terminal and in a notebook."""
