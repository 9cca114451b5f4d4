"""The agent for editors: the Agent Client Protocol over stdin and stdout."""
