"""Attacks on a run whose secrets we planted ourselves: what the messages really give away."""
