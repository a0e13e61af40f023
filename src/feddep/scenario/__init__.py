"""From a run's spec to the parties' data; every runtime builds on it."""
