"""The broadcast between instances through Redis."""
