"""The broadcast between the workers of one server by ZeroMQ."""
