"""What the classes share: their registry, YAML files and collectives."""
