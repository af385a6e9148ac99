"""What takes longer than ``.ci/run``, stage by stage within a budget of time."""
