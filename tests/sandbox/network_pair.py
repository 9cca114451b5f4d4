"""A server and a client that talk inside a sandbox."""

SERVER_AND_CLIENT = """
import socket
server = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(server.getsockname()) as client:
    print("heard")
"""
