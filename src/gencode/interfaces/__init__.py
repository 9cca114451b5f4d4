"""Interfaces: the command line, conversation screens, the terminal app, and the HTTP, ACP and MCP servers."""
