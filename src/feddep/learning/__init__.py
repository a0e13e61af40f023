"""Training and scoring on one graph. Nothing here knows about messages."""
