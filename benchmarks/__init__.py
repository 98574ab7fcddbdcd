"""Side by side with other libraries: one file answers one question, in one run. `python -m benchmarks`."""
