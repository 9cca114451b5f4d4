"""The search engines of WebSearch, one file each; `engine` says what one is."""
