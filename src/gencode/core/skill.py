"""What a skill is: instructions for one kind of work, in a folder of their own, read when they are needed."""

from typing import Any

from msgspec import Struct

from gencode.core.spec import earlier_version


class Skill(Struct, frozen=True):
    """One skill, read from a `SKILL.md`. It is text: nothing in it gives a permission.

    `agent` is the agent that does the work (empty: whoever uses the skill). A `hidden` one is not for models
    to choose. `tools` is what its file says about tools, which has no effect. `cut`: only the beginning of
    its text is here; all of it is in `source`. `files` is what else is in the folder of a project's skill.
    """

    name: str
    description: str
    body: str = ""
    source: str = ""
    agent: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    hint: str = ""
    hidden: bool = False
    project: bool = False
    cut: bool = False
    files: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    outdated: str = ""
    """Why its file is used as it was before it was last changed."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """All warnings about its file."""
        return (*self.warnings, earlier_version(self.outdated)) if self.outdated else self.warnings

    @property
    def folder(self) -> str:
        """Where the skill and its files lie."""
        return self.source.rpartition("/")[0]


class SkillEntry(Struct, frozen=True):
    """One file: the skill it describes, or the sentence that says why it does not.

    `project`: it came with the folder we work in. `untrusted` says why it was not even read.
    """

    path: str
    skill: Skill | None = None
    shadowed_by: str = ""
    problem: str = ""
    project: bool = False
    untrusted: str = ""
