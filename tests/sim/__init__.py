"""A dataflow, simulated: its own code over a bucket in memory, with every order and every fault."""
