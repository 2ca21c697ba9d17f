"""What a checkpoint tells: its epochs, cuts, stores and their state."""
