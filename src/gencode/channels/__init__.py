"""Channels: messages from agents to people outside the conversation, and the outbox they wait in."""
