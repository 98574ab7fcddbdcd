"""Pictures and pages of what was planned, visited and reached."""
