"""Automatic mutants at work: which programs reach a line, and what becomes of a defect in it."""
