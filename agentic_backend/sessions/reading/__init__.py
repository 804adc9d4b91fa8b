"""What is read of sessions: their exchanges, runs, figures, exports."""
