"""Training and scoring on one graph. Nothing here knows of messages."""
