"""Silence is a defect: what has nothing to do with a program takes no violation away. ``python -m tests.metamorphic``."""
