"""What every sink is made of: the epoch, its query, its own columns and connections."""
