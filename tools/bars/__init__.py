"""One file answers one question, with a yardstick and a bar that must hold: `python -m tools.bars`."""
