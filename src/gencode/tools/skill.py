"""Skill: load the instructions of a skill, or have the skill's agent do the work.

The registry of skills is read anew at each call. A skill that names an agent is like a call of Task, so the
gate has to judge it as one: `as_task_call` is that call. Where the gate does not, the tool starts no agent
and tells the model to make the call itself.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from gencode.agent.toolbox import Param, Tool, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError, UserMistake
from gencode.core.messages import ToolCall, Trace
from gencode.core.spec import Skill, TaskRequest, same_name
from gencode.core.structs import replace
from gencode.core.text import clip, inert, one_line
from gencode.tools.start_agent import result_of

NAME = "Skill"
LONGEST_BODY = 24_000
LONGEST_ARGUMENTS = 8_000

_PLACE = re.compile(r"\$ARGUMENTS\b(?:\[(?P<number>\d{1,2})\])?|\$\{(?:CLAUDE|GEN)_SKILL_DIR\}")


class SkillSource(Protocol):
    """Interface of a registry of skills."""

    def find(self, name: str) -> Skill:
        """A skill by name, without regard to case and separators; UserMistake says why there is none."""
        ...

    def files(self, skill: Skill) -> Sequence[str]:
        """What else is in the folder of a skill, as paths."""
        ...


def skill_tool(skills: Callable[[], SkillSource], *, delegates: bool) -> Tool:
    """The tool `Skill` over the skills there are at each call.

    `delegates`: the gate judges a call also as the call of Task that it amounts to, so agents may be sent.
    """

    @tool(effect="read", name=NAME, timeout=None, on_request=True)
    async def use(
        ctx: ToolContext,
        skill: Annotated[str, "The name of the skill, as your instructions list it"],
        arguments: Annotated[str, Param("What to use the skill on, in words", also=("args",))] = "",
    ) -> ToolOutput:
        """Load a skill: instructions for one kind of work, with the files that belong to it.

        Use it before you begin such work yourself, and follow it. Some skills are done by an agent of their
        own; then its report is returned.
        """
        source = skills()
        found = _found(source, skill)
        files = source.files(found)
        if not found.agent:
            if not found.project:  # they lie outside of the workspace, where the user put them to be read
                for file in (_real(found.source), *files):
                    ctx.allow_reading(Path(file))
            return ToolOutput(instructions(found, arguments, files), Trace(read=(found.source,)))
        request = _request(found, arguments, files)
        return await _sent(ctx, found, request) if delegates else _to_be_sent(request)

    return use


def as_task_call(call: ToolCall, skills: Callable[[], SkillSource]) -> ToolCall | None:
    """The call of Task that a call of Skill amounts to, for the gate; None when it starts no agent."""
    name = call.input.get("skill")
    if not isinstance(name, str) or same_name(call.name) != same_name(NAME):
        return None
    source, arguments = skills(), call.input.get("arguments", "")
    try:
        found = _found(source, name)
    except UserMistake:
        return None
    if not found.agent:
        return None
    said = arguments if isinstance(arguments, str) else ""
    return ToolCall(call.id, "Task", _input(_request(found, said, source.files(found))))


def instructions(skill: Skill, arguments: str, files: Sequence[str] = ()) -> str:
    """The instructions of a skill: its text with the arguments filled in, and its files."""
    said = clip(arguments, LONGEST_ARGUMENTS).strip()
    body = inert(skill.body).strip()
    text = clip(_filled(skill, body, said), LONGEST_BODY)
    head = f"Instructions of the skill {one_line(skill.name, 64)}. Follow them; they give no permission."
    parts = [head, f"Its folder: {skill.folder}", text]
    if skill.cut or len(body) > LONGEST_BODY:
        parts.append(f"[This is only the beginning; go on in {skill.source} with Read.]")
    if said and "$ARGUMENTS" not in body:
        parts.append(f"Arguments: {said}")
    if files:
        parts.append(
            "\n".join(["Its files, for Read when they are needed:", *(f"- {file}" for file in files)])
        )
    return "\n\n".join(parts)


def _found(skills: SkillSource, name: str) -> Skill:
    found = skills.find(name)
    if found.hidden:
        raise UserMistake(f"Only the user can use the skill {found.name!r}.")
    return found


def _filled(skill: Skill, body: str, arguments: str) -> str:
    """The text with its arguments and its folder filled in; what was filled in is not looked at again."""
    words = arguments.split()

    def said(found: re.Match[str]) -> str:
        if found[0].startswith("${"):
            return skill.folder
        number = found["number"]
        if number is None:
            return arguments
        return words[int(number)] if int(number) < len(words) else ""

    return _PLACE.sub(said, body)


def _request(skill: Skill, arguments: str, files: Sequence[str]) -> TaskRequest:
    model = "" if skill.model.casefold() == "inherit" else skill.model
    prompt = instructions(skill, arguments, files)
    return TaskRequest(skill.agent, prompt, f"skill {one_line(skill.name, 40)}", model)


def _input(request: TaskRequest) -> dict[str, Any]:
    return {
        "subagent_type": request.agent,
        "prompt": request.prompt,
        "description": request.description,
    }


async def _sent(ctx: ToolContext, skill: Skill, request: TaskRequest) -> ToolOutput:
    if ctx.delegate is None:
        raise ToolError(
            f"The skill {skill.name!r} needs the agent {skill.agent}, and this agent cannot start agents. "
            "Do the work without it or report back."
        )
    note = ""
    with ctx.parked():
        try:
            outcome = await ctx.delegate.run(request, ctx.call)
        except UserMistake as mistake:
            if not request.model:
                raise
            # Nothing was started. The model of a file is a wish; it may be another product's name.
            outcome = await ctx.delegate.run(replace(request, model=""), ctx.call)
            note = f"\n[The model {one_line(skill.model, 64)!r} of the skill was not used: {mistake}]"
    return result_of(ctx, outcome, background=False, note=note)


def _to_be_sent(request: TaskRequest) -> ToolOutput:
    return ToolOutput(
        f"This skill needs the agent {request.agent}. Start it with Task, subagent_type="
        f"{request.agent!r}, and this prompt:\n\n{request.prompt}"
    )


def _real(path: str) -> str:
    return str(Path(path).resolve())
