"""The conversation between server and clients: messages, bytes, rounds. No learning, no torch."""
