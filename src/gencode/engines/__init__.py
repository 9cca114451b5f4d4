"""A rack of places where a task executes."""
