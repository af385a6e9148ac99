"""Damaged frames for the codecs, a million at a time: ``python -m tests.fuzz --help``."""
