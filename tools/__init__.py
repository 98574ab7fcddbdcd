"""What developers run: release, mutation testing, bars, and figures about the source."""
