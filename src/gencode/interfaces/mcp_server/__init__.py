"""The MCP server: GenCode's agents for other assistants, on stdin and stdout or behind an address."""
