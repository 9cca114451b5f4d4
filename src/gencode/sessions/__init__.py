"""Sessions: what all work of one open GenCode shares, and who asks for it."""
