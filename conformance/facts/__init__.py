"""Facts: what follows from a history, worked out once: tables of rows whose unobserved instants are spans."""
