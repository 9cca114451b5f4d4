"""Web pages as text: HTML parser, HTML to Markdown, character sets."""
