"""Rules: a requirement is a short function over the rows of the facts; one file per area; the judge that runs them."""
