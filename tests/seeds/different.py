"""The rows that GenCode does in another way, each with the reason."""

from tests.seeds.rows import Different

DIFFERENT: tuple[Different, ...] = (
    Different(
        "002",
        "Future: code type (perhaps LSP)",
        "The type `code` is there (`gen agents add task-types`); tools of language servers come later.",
    ),
    Different(
        "003",
        "Max iterations 20/15/10/10",
        "The limits of seed 000 apply: 50, 30, 50 and 10. `max-turns` of your own file sets others.",
    ),
    Different(
        "000",
        "2 `## Agent Type: NAME` + description",
        "The heading is `## Role: NAME`. The description is for the parent that chooses; "
        "the agent has its instructions.",
    ),
    Different(
        "000",
        "3 `## Your Task`",
        "The task is the first message and not part of the system prompt, so that all agents of a kind share "
        "one prompt in the provider's cache.",
    ),
    Different(
        "000",
        "Modules of the table",
        "The same parts are Python modules: `tools/start_agent.py`, `tools/task_output.py`, "
        "`tools/task_stop.py`, `agents/registry.py`, `agents/builtin/`, `agent/loop.py`.",
    ),
    Different(
        "001",
        "Unit/integration tests",
        "They are in `tests/`, by the rooms of the source; `scripts/test` runs all of them.",
    ),
)
