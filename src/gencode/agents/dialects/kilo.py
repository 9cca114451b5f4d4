"""Kilo Code: as opencode, and lists of tools as Claude Code writes them."""

from gencode.agents.dialect import Dialect
from gencode.agents.dialects.opencode import FIELDS, finish, prepare

DIALECT = Dialect(
    "kilo",
    project=(".kilo/agents", ".kilo/agent", ".kilocode/agents"),
    user=(".config/kilo/agents", ".config/kilo/agent", ".kilo/agents"),
    fields=FIELDS,
    prepare=prepare,
    finish=finish,
)
