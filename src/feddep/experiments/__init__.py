"""Runs: from a spec to a record on disk."""
