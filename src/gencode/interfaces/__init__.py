"""Painters: they turn events into text and pixels, and input into calls."""
