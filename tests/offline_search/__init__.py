"""The search behind the offline model."""
