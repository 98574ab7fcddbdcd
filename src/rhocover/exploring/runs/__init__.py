"""Runs: what is asked for, the loop, when it stops, what it stores and what it returns."""
