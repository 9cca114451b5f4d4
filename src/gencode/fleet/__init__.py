"""TODO: say what fleet is."""
