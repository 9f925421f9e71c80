"""Data sets by name, as the stores that a model's Data layers read."""
