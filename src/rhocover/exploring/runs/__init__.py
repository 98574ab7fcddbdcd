"""Runs of explorers: settings, the loop, stopping rules, checkpoints and results."""
