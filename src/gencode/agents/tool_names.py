"""Maps the tool names of other products to ours.

A name that is not in a table stays as it is: it may be a tool that a program adds, and where there is none it
gives nothing. A tool that can do less than any of ours maps to none of them, because a file must never give
more than it says.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from gencode.core.spec import same_name

USUAL = (
    "Task",
    "TaskOutput",
    "TaskStop",
    "SendMessage",
    "Read",
    "Glob",
    "Grep",
    "LS",
    "Write",
    "Edit",
    "Bash",
    "KillShell",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
    "AskUserQuestion",
)
"""Every tool that need not be asked for by name."""
ON_REQUEST = (
    "spawn",
    "spawn_subagent",
    "Skill",
    "current_time",
    "sleep",
    "get_env",
    "set_env",
    "delete_file",
    "move_file",
    "get_file_info",
    "http_get",
    "http_post",
    "http_request",
    "json_parse",
    "json_stringify",
    "base64_encode",
    "base64_decode",
    "memory_list",
    "memory_read",
    "memory_write",
    "memory_patch",
    "memory_append",
    "task_list",
    "task_replay",
    "notify",
    "message",
    "cron",
)
MCP = "mcp__"
READING = ("Read", "LS", "Grep", "Glob")
"""The tools left to an agent whose file denies something unknown."""

_SPELLINGS: dict[str, str] = {
    "Read": "read_file ReadFile view cat open_file open_files fs_read readFiles read_many_files "
    "ReadManyFiles NotebookRead ReadMediaFile view_file read/readFile readFile file_read "
    "expand_code_chunks",
    "Write": "write_file WriteFile create_file createFile edit/createFile fs_write file_write new_file "
    "Create write_to_file",
    "Edit": "edit_file MultiEdit replace str_replace StrReplaceFile str_replace_editor ApplyPatch "
    "apply_patch patch editFiles edit/editFiles editFile multi_edit find_and_replace_code "
    "search_replace replace_in_file update_file multiedit file_edit",
    "Bash": "exec shell Shell run_shell_command execute_command terminal runInTerminal runCommands "
    "execute_bash execute/runInTerminal run_command run_terminal_cmd run_in_terminal "
    "bash_tool execute_shell Execute runCommand local_shell shell_command",
    "Grep": "grep_search grep_files search_file_content SearchText textSearch search/textSearch "
    "ripgrep rg search_files codebase_search searchText GrepSearch content_search "
    "search/codebase codebase usages search/usages",
    "Glob": "find glob_search fileSearch search/fileSearch find_files file_search GlobSearch "
    "FindFiles search/listDirectory findTestFiles",
    "LS": "list list_dir list_files list_directory ListDir ListFiles ReadFolder listDirectory "
    "expand_folder read/listDirectory list_dir_contents view_directory",
    "WebFetch": "web_fetch fetch FetchURL fetch_url web/fetch fetch_content FetchUrl read_url url_fetch "
    "fetch_webpage",
    "WebSearch": "web_search google_web_search SearchWeb websearch_tool search_web web/search brave_search",
    "TodoWrite": "todo write_todos todo_write TodoRead SetTodoList todowrite todoread update_plan todos "
    "manage_todo_list todo_read task_tracker",
    "Task": "Agent agent delegate runSubagent agent/runSubagent use_subagent subagent dispatch_agent "
    "task_tool invoke_subagent",
    "TaskOutput": "AgentOutput BashOutput AgentOutputTool execute/getTerminalOutput getTerminalOutput "
    "read/getTaskOutput",
    "TaskStop": "AgentStop",
    "KillShell": "KillBash kill_shell execute/killTerminal killTerminal",
    "AskUserQuestion": "ask_user question AskUser ask_user_question ask_followup_question askQuestions "
    "vscode/askQuestions",
    "Skill": "activate_skill skill_tool use_skill load_skill",
    "SendMessage": "send_message",
}
_FAMILIES: dict[str, tuple[str, ...]] = {
    "edit": ("Edit", "Write"),
    "search": ("Grep", "Glob"),
    "read": ("Read", "LS"),
    "execute": ("Bash", "KillShell"),
    "web": ("WebFetch", "WebSearch"),
    "@builtin": USUAL,
    "fs_read": ("Read", "LS"),
    "fs_write": ("Write", "Edit"),
    "read-only": ("Read", "LS", "Grep", "Glob"),
    "file_editor": ("Read", "Write", "Edit"),
}
"""One word for several tools. Each dialect lists which of these it knows."""

_KNOWN = {same_name(name): name for name in (*USUAL, *ON_REQUEST)}
_ELSEWHERE = {
    same_name(spelled): name for name, spellings in _SPELLINGS.items() for spelled in spellings.split()
}
_ABSENT = frozenset(
    map(
        same_name,
        [
            "NotebookEdit",
            "ExitPlanMode",
            "EnterPlanMode",
            "exit_plan_mode",
            "EnterWorktree",
            "LSP",
            "ExitWorktree",
            "ToolSearch",
            "Monitor",
            "SlashCommand",
            "StructuredOutput",
            "codesearch",
            "ListMcpResources",
            "ListMcpResourcesTool",
            "ReadMcpResource",
            "ReadMcpResourceTool",
            "external_directory",
            "doom_loop",
            "plan_enter",
            "plan_exit",
            "runTests",
            "think",
            "thinking",
            "save_memory",
            "SendDMail",
            "CreateSubagent",
            "create_directory",
            "edit/createDirectory",
            "use_aws",
            "knowledge",
            "introspect",
            "computer",
            "browser",
            "notebook_edit",
            "TaskCreate",
            "TaskUpdate",
            "TaskGet",
            "CronCreate",
            "CronDelete",
            "CronList",
            "RemoteTrigger",
            "LSPTool",
            "view_image",
            "include_plan_tool",
        ],
    )
)
"""Tools of other products that do nothing here, so that taking them away takes nothing."""
_FEWEST_LETTERS = 3
_PATTERN = re.compile(r"[\w*./@-]+")
RETIRED = frozenset(
    map(same_name, ("MultiEdit", "LS", "NotebookRead", "KillBash", "TodoRead", "BashOutput", "AgentOutput"))
)


@lru_cache(2_048)
def tools_called(name: str, families: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Our tools for a name of any product; none if the name is unknown."""
    if not name.isascii():  # a look-alike of one of our letters
        return ()
    word = name.casefold()
    if word in families:
        return _FAMILIES[word]
    if name.startswith(MCP):
        return (name,)
    key = same_name(name)
    for table in (_KNOWN, _ELSEWHERE):
        if key in table:
            return (table[key],)
    return ()


def tools_denied(name: str, families: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Every tool that the name of a denial may mean, patterns too; None when there is no telling."""
    if found := tools_called(name, families):
        return found
    if ":" in name:  # a tool with its module before it
        return tools_denied(name.rpartition(":")[2], families)
    key = same_name(name)
    if key in _ABSENT:
        return (name,)
    if "*" not in key or not _PATTERN.fullmatch(name):
        return None
    tables = (*_KNOWN.items(), *_ELSEWHERE.items(), *((same_name(each), each) for each in families))
    meant = [tool for spelled, tool in tables if fnmatchcase(spelled, key.replace("[", "[[]"))]
    whole = [tool for each in meant for tool in _FAMILIES.get(each, (each,))]
    if not whole and len(key.replace("*", "")) < _FEWEST_LETTERS:
        return None
    return (*dict.fromkeys(whole), f"{MCP}{name}", f"{MCP}*__{name}")  # others join server and tool


def known_tools() -> Iterable[str]:
    """Every tool there is, or will be."""
    return (*USUAL, *ON_REQUEST)
