"""Imports every class that comes with neon, so that it is registered."""

from neon import backends, datasets, experiments, layers, metrics, models, params, transforms

__all__ = ["backends", "datasets", "experiments", "layers", "metrics", "models", "params", "transforms"]
