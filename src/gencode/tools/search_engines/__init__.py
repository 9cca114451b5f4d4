"""The engines that WebSearch can ask, one file each; `port` says what an engine is."""
