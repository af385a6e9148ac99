"""Automatic mutants: defects that nobody wrote by hand, made from the reference broker's source."""
