"""Files of Task Types in a project: those of the seed as they ship, and ones of a test's own."""

from pathlib import Path

from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home

READS = (
    *("current_time", "get_env", "read_file", "list_files", "get_file_info", "grep_files"),
    *("http_get", "web_search", "json_parse", "base64_decode", "memory_list", "memory_read"),
    *("task_list", "task_replay", "notify"),
)
"""The tools of `explore`."""
PLANS = (*READS, "memory_write", "memory_append")
GENERAL = (
    *PLANS,
    *("sleep", "set_env", "write_file", "delete_file", "move_file", "edit_file", "http_post", "http_request"),
    *("json_stringify", "base64_encode", "memory_patch"),
)
_OURS = {
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "list_files": "LS",
    "grep_files": "Grep",
    "web_search": "WebSearch",
}


def ours(*names: str) -> set[str]:
    """The seed's names of tools as GenCode calls them."""
    return {_OURS.get(name, name) for name in names}


def write_type(
    folder: Path,
    name: str,
    tools: str = "read_file, list_files",
    *,
    at: str = "subagents",
    more: str = "",
    called: str = "",
    body: str = "Work.",
) -> Path:
    """A type's folder with its `SUBAGENT.md`."""
    place = folder / at / name
    place.mkdir(parents=True, exist_ok=True)
    text = (
        f'---\nname: {called or name}\ndescription: "Does {name}. Use it when {name} is needed."\n'
        f'tools: "{tools}"\n{more}---\n\n{body}\n'
    )
    file = place / "SUBAGENT.md"
    file.write_text(text)
    return file


def trust_all(folder: Path) -> None:
    """Trust a folder as it is now, as `gen trust --yes` does."""
    trust(standing(folder, gen_home()), gen_home())
