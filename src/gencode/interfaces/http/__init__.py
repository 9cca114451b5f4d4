"""The server: an HTTP API, live events and the web page over one open GenCode."""
