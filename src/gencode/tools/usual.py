"""tools: those that are there for everybody whose file does not say otherwise, and those that spawn."""

from gencode.tools.ask_user_question import ASK_USER_QUESTION
from gencode.tools.bash import BASH, KILL_SHELL
from gencode.tools.edit import EDIT
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ
from gencode.tools.send_message import SEND_MESSAGE
from gencode.tools.spawn import SPAWN, SPAWN_SUBAGENT
from gencode.tools.task import TASK
from gencode.tools.task_output import TASK_OUTPUT
from gencode.tools.task_stop import TASK_STOP
from gencode.tools.todo import TODO_WRITE
from gencode.tools.web_fetch import WEB_FETCH
from gencode.tools.web_search import WEB_SEARCH
from gencode.tools.write import WRITE

TOOLS = (
    *(TASK, TASK_OUTPUT, TASK_STOP, SEND_MESSAGE, READ, GLOB, GREP, LS, WRITE, EDIT, BASH, KILL_SHELL),
    *(WEB_FETCH, WEB_SEARCH, TODO_WRITE, ASK_USER_QUESTION),
    *(SPAWN, SPAWN_SUBAGENT),
)
