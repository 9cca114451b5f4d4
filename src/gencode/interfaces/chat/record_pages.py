"""Pages that show the records of commands in a conversation: agents, models, skills, permissions and trust.

They need all of GenCode, so they are imported when the first one is wanted: the app's first frame is not
kept waiting.
"""

from collections.abc import Sequence

from gencode.app import GenCode, started_if_trusted
from gencode.interfaces.chat.agent_info import (
    TRUST_AGAIN,
    agent_details,
    agent_text,
    create_agent,
    created_text,
    lint,
    lint_text,
    skill_lines,
    skills_text,
)
from gencode.interfaces.chat.folder_review import folder_review, review_text
from gencode.interfaces.chat.model_info import model_list, models_text
from gencode.interfaces.chat.permission_info import call_input, explanation_text
from gencode.permissions.started_files import StartedFiles
from gencode.permissions.trust import standing
from gencode.settings import gen_home

WIDE = 400
"""Longer lines of a table are wrapped by whoever shows the page."""


def agent_page(gen: GenCode, name: str) -> str:
    """Everything about one agent."""
    return agent_text(agent_details(gen, name))


def lint_page(gen: GenCode, paths: Sequence[str]) -> str:
    """What the linter says about agent files."""
    return lint_text(lint(gen, paths))


def models_page(gen: GenCode, answers: str = "") -> str:
    """Every model name, below the model that `answers` in this conversation."""
    return models_text(model_list(gen), answers, WIDE)


def skills_page(gen: GenCode) -> str:
    """Every skill."""
    return skills_text(skill_lines(gen), WIDE)


def new_agent_page(gen: GenCode, name: str, description: str) -> str:
    """Create an agent file in the folder, and say what is left to do before it applies."""
    created = create_agent(gen.workspace.root, {"name": name, "description": description})
    text = created_text(created)
    return text if created.trusted else f"{text}\n{TRUST_AGAIN}"


def explanation_page(gen: GenCode, tool: str, given: str) -> str:
    """The decision for one call of the main agent under the current mode and rules."""
    known = gen.toolbox[tool].name if tool in gen.toolbox else tool
    return explanation_text(gen.explain(known, call_input(known, given)), WIDE)


def trust_page(gen: GenCode) -> str:
    """What the folder contains now, and whether it is trusted."""
    project = standing(gen.workspace.root, gen_home())
    started = started_if_trusted(project) if project.state != "nothing" else StartedFiles()
    return review_text(folder_review(project, started))
