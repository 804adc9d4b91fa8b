"""Applications as a server hosts them: found, checked, started, and called behind one border."""
