"""False alarms of oracles, looked for by the thousand: ``python -m tests.alarms --help``."""
