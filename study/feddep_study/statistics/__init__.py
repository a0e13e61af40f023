"""Differences, intervals and ranks over stored runs."""
