"""What is promised about a silo's edges, to whom, and what it is worth."""
