"""Renders events, agents and transcripts as text, for every interface."""
