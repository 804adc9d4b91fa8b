"""YAML whose every error names its place."""
