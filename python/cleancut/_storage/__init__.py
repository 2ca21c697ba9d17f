"""The objects of a checkpoint, wherever they lie: in a directory or in a bucket."""
