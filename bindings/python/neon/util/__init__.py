"""Utilities of all classes: their registry, YAML files and collectives."""
