"""Many runs: declared sweeps, tuning, and what they will cost."""
