"""Speed and memory, each figure a ratio measured in one run, because machines are noisy."""
