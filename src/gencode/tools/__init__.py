"""The built-in tools; one file is one tool or one tight family."""
