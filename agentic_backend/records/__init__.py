"""The records of applications: kinds, declared once, and what reads and writes their rows."""
