"""Kiro: JSON with a prompt, or Markdown.

`allowedTools` are those that need no approval there; they give nothing here.
"""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "kiro",
    project=(".kiro/agents",),
    user=(".kiro/agents",),
    endings=(".md", ".json"),
    fields={
        **COMMON,
        **spelled(
            prompt="prompt", nothing="allowedTools resources useLegacyMcpJson toolsSettings toolAliases"
        ),
    },
    families=("@builtin", "fs_read", "fs_write", "read"),
    servers="/",
)
