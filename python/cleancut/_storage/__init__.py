"""The objects of a checkpoint, in a directory or in a bucket."""
