"""What a target remembers of the epochs that it has taken, and what makes sinks of functions."""
