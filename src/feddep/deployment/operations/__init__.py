"""Setting up, starting and checking the machines of a deployment."""
