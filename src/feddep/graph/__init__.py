"""Graphs: loading, generating, splitting, partitioning, sampling. Nothing here learns or sends."""
