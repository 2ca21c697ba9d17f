"""The values and pairs of values that the generators of randomized tests cover."""
