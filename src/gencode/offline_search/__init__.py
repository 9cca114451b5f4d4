"""The search behind the offline model: text in, plan or answer out; no I/O and no state."""
