"""Web pages as text: HTML parsing, HTML to Markdown, character sets."""
