"""What writes to a checkpoint without a JVM."""
