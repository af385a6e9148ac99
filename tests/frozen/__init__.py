"""The old judge, frozen: what it said of the corpus, of random programs and of every hand-written mutant."""
