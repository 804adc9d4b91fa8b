"""The streams of providers, read in a shorter way than their packages do, with equal results."""
