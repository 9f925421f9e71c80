"""Imports all classes of the package, which registers them."""

from neon import backends, datasets, experiments, layers, metrics, models, params, transforms

__all__ = ["backends", "datasets", "experiments", "layers", "metrics", "models", "params", "transforms"]
