"""Evals: questions with checks, put to agents as people would put them. See docs/evals.md."""
