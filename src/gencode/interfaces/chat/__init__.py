"""What every conversation screen shares: the session, slash commands, completion, notices, question texts."""
