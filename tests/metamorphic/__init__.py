"""What has nothing to do with a program takes no violation away: ``python -m tests.metamorphic --help``."""
