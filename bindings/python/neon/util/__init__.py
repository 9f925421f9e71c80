"""What the classes share: their registry, YAML files, the world."""
