"""The server: real sockets on 127.0.0.1, real SQLite, a scripted model."""
