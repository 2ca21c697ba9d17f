"""What Spark itself writes into a checkpoint."""
