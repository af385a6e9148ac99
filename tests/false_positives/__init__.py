"""False false_positives of rules, looked for by the thousand: ``python -m tests.false_positives --help``."""
