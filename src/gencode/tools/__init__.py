"""A rack of tools; one file is one tool or one tight family."""
