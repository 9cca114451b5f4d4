"""The tests of the interfaces: command line, terminal app, HTTP, editors, MCP."""
