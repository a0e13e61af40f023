"""Carrying messages between server and clients. Nothing here knows what they mean."""
