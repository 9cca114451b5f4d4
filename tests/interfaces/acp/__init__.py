"""The agent for editors: real processes, and the protocol's own client as the editor."""
