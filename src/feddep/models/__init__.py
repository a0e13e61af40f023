"""Neural networks over ego-graphs, and their gradients. Nothing here sends messages."""
