"""The offline model's pure parts: text in, plan or answer out; no I/O, no state."""
