"""The internal listener's applications: metrics, health, the latest log lines."""
