"""Minari data sets: finding them, reading them in chunks of bounded memory, writing them in bulk."""
