"""Texts of files: what a file is, and what is written in it, block by block, read in a process of its own."""
