"""OpenWire's bytes: what a command looks like on the wire, in both directions, from one table."""
