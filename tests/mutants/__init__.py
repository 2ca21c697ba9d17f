"""Defects that are planted one at a time, to measure whether the tests find them."""
