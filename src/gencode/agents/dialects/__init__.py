"""A rack of dialects: one file says how one product writes agents down."""
