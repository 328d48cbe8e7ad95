"""Benchmarks of unojax; see README.md in this folder."""
