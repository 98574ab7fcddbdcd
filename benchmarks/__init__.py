"""One file answers one question, with the yardstick in the same run. `python -m benchmarks [name ...]`."""
