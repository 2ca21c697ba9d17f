"""The model of a dataflow: vectors of epochs, records, names of objects."""
