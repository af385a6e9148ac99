"""Commands for who operates a running broker: ``diagnose`` and ``clocks``. They change nothing that stays."""
