"""From a run's spec to the clients' data; every runtime builds on it."""
