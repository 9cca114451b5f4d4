"""The terminal app: painters over the folded view, on Textual. Nothing here decides anything."""
