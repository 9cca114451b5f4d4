"""The Bash decision: from the text of a command line to allow, ask or deny."""
