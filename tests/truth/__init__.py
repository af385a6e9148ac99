"""Facts against the truth: what the simulated broker really did, and when, lies within every span."""
