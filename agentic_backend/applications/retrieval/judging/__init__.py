"""Whether an answer says what its passages say: its citations checked, its sentences judged."""
