"""Words as a person types them, and the read-only judgement of a typed command."""

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import ShellWord
from gencode.permissions.bash.readonly import not_read_only


def error_text(text: str) -> tuple[ShellWord, ...]:
    """The words of a text that is one simple command; those of its substitutions are parts of their own."""
    (words,) = (part.words for part in parse(text) if part.source == text.strip())
    return words


def refusal(text: str, *, behind_xargs: bool = False) -> str:
    """Why one simple command is not read-only, or an empty text."""
    return not_read_only(error_text(text), behind_xargs=behind_xargs)
