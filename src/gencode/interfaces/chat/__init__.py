"""What every conversation screen shares: the chat session, slash commands, completion and questions."""
