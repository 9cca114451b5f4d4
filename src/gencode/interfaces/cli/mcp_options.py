"""What can be typed about the MCP server: `gen mcp`."""

import argparse

from gencode.interfaces.cli.option_types import Commands, add, add_model, add_policy, port

EXAMPLES = """\
It speaks MCP on stdin and stdout and is started by another assistant; its log is in ~/.gen/logs. It offers
the tools Task, TaskOutput, TaskStop, SendMessage and task_list, every agent as a prompt, and results and
transcripts as resources. It works in the current folder or in --cwd; the client's roots narrow that.

examples:
  claude mcp add gencode -- gen mcp
  gen mcp --cwd ~/project --permission-mode acceptEdits --allow "Bash(npm test)"
  gen mcp --http --port 8765 --token-file ~/.gen/mcp-token
"""


def add_mcp(commands: Commands) -> None:
    """`gen mcp`."""
    parser = add(commands, "mcp", "mcp:run", "offer the agents to other assistants, as an MCP server")
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    group = parser.add_argument_group("behind an address")
    group.add_argument(
        "--http", action="store_true", help="serve streamable HTTP instead of stdin and stdout"
    )
    group.add_argument("--port", type=port, metavar="N", help="listen there; a free port when it is not said")
    group.add_argument(
        "--bind", metavar="ADDRESS", help="listen on this address and not on 127.0.0.1; others can reach it"
    )
    group.add_argument(
        "--allow-host", action="append", metavar="NAME", help="be asked for under this name too; repeatable"
    )
    group.add_argument("--token-file", metavar="FILE", help="keep the token there, for the next start")
    add_model(parser)
    add_policy(parser)
