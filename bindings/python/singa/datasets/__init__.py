"""Datasets by name, as the stores that the Data layers of a model read."""
