"""Minari data sets, in and out: found, read in chunks of bounded memory, written in bulk."""
