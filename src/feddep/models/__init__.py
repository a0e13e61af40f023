"""Neural networks over ego-graphs. Nothing here trains or sends."""
