"""OpenWire's data structures to commands and back: a file per command family, one table over all (``tables.py``).

``wire/`` knows how a structure is written, ``commands.py`` what it means; nothing but this room knows both.
"""
