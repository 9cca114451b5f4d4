"""The commands a newcomer types first."""
