"""Strategy packs: what a domain asks of a case, and its strategies with rubrics, read from YAML and checked."""
