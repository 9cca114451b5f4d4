"""A rack of models; one file is one way to get an answer."""
