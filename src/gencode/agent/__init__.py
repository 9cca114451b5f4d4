"""One agent at work: the loop, its tools and gate, the prompt, compaction, hooks, and the ports it needs."""
