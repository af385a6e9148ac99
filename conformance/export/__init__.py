"""Reproducers that need nothing of ours: a program as a STOMP transcript, a pytest file, a JUnit test."""
