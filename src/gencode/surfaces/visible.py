"""Text from models, files and tools, made harmless for a terminal: what would act is shown instead.

Answers are `visible`. Where a person decides or looks for the truth (questions, what a folder brings, the
log) text is `exact`: what merely looks like something else is shown as well.
"""

from gencode.core.quoting import ACTING, spelled, visible, visible_line

__all__ = ["exact", "exact_line", "safe_json", "visible", "visible_line"]


def exact(text: str, keep: str = "\n\t") -> str:
    """`text` with everything spelled that cannot be seen, or looks like another character: odd spaces too."""
    shown = ACTING.sub(lambda found: spelled(found[0]), text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() or each in keep else spelled(each) for each in shown)


def exact_line(text: str) -> str:
    """`text` exactly, on one line whatever it holds."""
    return exact(text, keep="")


def safe_json(text: str) -> str:
    """JSON text that means the same and in which every acting character is escaped."""
    return ACTING.sub(lambda found: _escaped(found[0]), text)


def _escaped(char: str) -> str:
    """A character as JSON escapes it: astral ones as a pair."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
