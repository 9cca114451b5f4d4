"""Model providers: one file for each way to get an answer, and what they share."""
