"""Where a broker keeps what must outlive it: one small interface, two implementations. See ``journal.py``."""
