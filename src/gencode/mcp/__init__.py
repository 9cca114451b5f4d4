"""MCP client: servers whose tools agents use under the names `mcp__server__tool`."""
