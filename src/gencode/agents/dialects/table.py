"""GenCode's own agent files.

    ---
    name: tester
    description: Runs the tests and says what broke.
    model: inherit
    permission-mode: acceptEdits
    max-turns: 20
    tools: {mode: allowlist, allow: [Read, Bash]}
    permissions: {deny: ["Bash(git push:*)"]}
    result-cap: 4000
    effort: low
    override: false
    ---
    The agent's own instructions.

Whatever would quietly give an agent more than its file says is an error; what has no effect is a warning.
"""

from gencode.agents.dialect import Dialect

DIALECT = Dialect("gencode", project=(".gen/agents",), deep=False, strict=True)
