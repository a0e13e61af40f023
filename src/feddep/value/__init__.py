"""What a silo gains by collaborating, on its own test nodes."""
