"""The folder `.agents/agents` that several products share: what all of them understand."""

from gencode.agents.dialect import Dialect, field_names
from gencode.agents.dialects.openhands import FAMILIES, FIELDS, finish
from gencode.agents.mode_names import CLAUDE, OPENHANDS

DIALECT = Dialect(
    "agents",
    project=(".agents/agents",),
    user=(".agents/agents",),
    fields={**FIELDS, **field_names(sends="subagents")},
    modes={**CLAUDE, **OPENHANDS},
    families=FAMILIES,
    finish=finish,
)
