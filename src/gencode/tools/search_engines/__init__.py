"""The search engines of WebSearch, one file each; `engine` defines the interface."""
