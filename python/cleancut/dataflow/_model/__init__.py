"""What a dataflow is, as values: vectors of epochs, records, names of objects."""
