"""A simulated dataflow: the real code over a bucket in memory, with random orders and faults."""
