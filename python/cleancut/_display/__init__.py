"""How values show themselves: as tables, in a terminal and in a notebook."""
