"""The allow rules that a person approved with "always".

The file is written by the program only, so that nothing the person wrote by hand is ever touched; it is
a part of the user's settings.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.permissions.whole_files import write_private_file

FILE = "answers.toml"
_HEAD = '# Rules approved with "always". Remove a line to be asked again.\n'


def save_rule(home: Path, rules: Mapping[str, list[str]], rule: str) -> None:
    """Add an allow rule to those that are there; whole or not at all, also beside another process."""
    kept = list(dict.fromkeys((*rules.get("allow", ()), rule)))
    lines = "".join(f"  {json.dumps(each, ensure_ascii=False)},\n" for each in kept)
    try:
        write_private_file(home / FILE, f"{_HEAD}allow = [\n{lines}]\n".encode(), sync=True)
    except OSError as error:
        raise UserMistake(f"The rule could not be saved in {home / FILE}: {error.strerror}.") from None
