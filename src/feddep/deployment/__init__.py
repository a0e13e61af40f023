"""Federated learning over several machines: the protocol, and how the machines are operated."""
