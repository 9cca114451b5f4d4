"""The forms of a command that rules match: with wrappers, without them, behind xargs.

Deny and ask rules look at the words as typed, at what each wrapper leaves, and at every suffix behind a
dispatcher. Allow rules look at what transparent wrappers leave, and at the words as typed if their fixed
words reach the command that is really run.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gencode.core.rules import Rule
from gencode.permissions.bash.parts import ShellWord, WordPiece
from gencode.permissions.bash.rule_automaton import Automaton, Track
from gencode.permissions.bash.wrappers import NOTHING_WRAPPED, WrapperReach, replaced_words, split_string

UNKNOWN = ShellWord((WordPiece("…", "other"),), "…")
"""A word that xargs will put there."""

ECHO = ShellWord((WordPiece("echo"),), "echo")
"""What xargs runs when it is given no command."""

_NOWHERE = 1 << 30


class AllowForm(NamedTuple):
    """Words an allow rule may cover: with at least `need` fixed words, and no star if it must be `exact`."""

    track: Track
    need: int = 0
    exact: bool = False


def value_of(word: ShellWord) -> str | None:
    """The value of a word, None where it is not known."""
    pieces = word.pieces
    if len(pieces) == 1:
        return pieces[0].text if pieces[0].kind == "text" else None
    for piece in pieces:
        if piece.kind != "text":
            return None
    return "".join([piece.text for piece in pieces])


def values_of(words: Sequence[ShellWord]) -> tuple[str | None, ...]:
    """The values of words, None where one is not known."""
    return tuple([value_of(word) for word in words])


def known_values(values: tuple[str | None, ...]) -> tuple[str, ...] | None:
    """The values if all are known."""
    known = tuple([value for value in values if value is not None])
    return known if len(known) == len(values) else None


def made_unknown(word: ShellWord, texts: Sequence[str]) -> ShellWord:
    """A word in which somebody else will put something for these texts: xargs for its `-I`, find for `{}`."""
    parted = re.split(f"({'|'.join(map(re.escape, texts))})", word.value)
    pieces = [WordPiece(text, "other" if at % 2 else "text") for at, text in enumerate(parted) if text]
    return ShellWord(tuple(pieces), word.source)


def words_behind_xargs(words: Sequence[ShellWord], reach: WrapperReach) -> tuple[ShellWord, ...]:
    """The words with those unknown that xargs replaces, and one more for what it adds."""
    seen = tuple([without_certainty(word, reach.replaced) for word in words])
    return (*seen, UNKNOWN) if reach.inner < len(words) else (*seen, ECHO, UNKNOWN)


def without_certainty(word: ShellWord, texts: Sequence[str]) -> ShellWord:
    """A word with what xargs will replace in it made unknown."""
    return made_unknown(word, texts) if _has_any(word, texts) else word


def _has_any(word: ShellWord, texts: Sequence[str]) -> bool:
    value = value_of(word)
    return value is not None and any(text in value for text in texts)


def strict_tracks(values: tuple[str | None, ...], reach: WrapperReach) -> tuple[Track, ...]:
    """Where deny and ask rules begin to read."""
    if reach is NOTHING_WRAPPED:
        return (Track(values, (0,), _NOWHERE),)
    free_from = reach.strict_from if reach.strict_from >= 0 else _NOWHERE
    starts = reach.starts
    tracks: list[Track] = []
    if reach.xargs >= 0:
        wrapped = _behind_xargs(values, reach)
        later = tuple(start for start in starts if start > reach.xargs)
        tracks.append(Track(wrapped, later, max(free_from, reach.xargs + 1)))
        starts = tuple(start for start in starts if start <= reach.xargs)
        free_from = _NOWHERE if free_from > reach.xargs else free_from
    tracks.append(Track(values, starts, free_from))
    tracks.extend(Track(split_string(values, at), (), 0) for at in reach.splits)
    return tuple(tracks)


def allow_forms(values: tuple[str | None, ...], reach: WrapperReach) -> tuple[AllowForm, ...]:
    """What an allow rule has to cover to allow the command; empty where none but the blanket one can."""
    if reach is NOTHING_WRAPPED:
        return (AllowForm(Track(values, (0,), _NOWHERE)),)
    inner, core = reach.inner, reach.core
    seen = _behind_xargs(values, reach) if reach.xargs >= 0 else values
    dispatched = reach.free_from >= 0
    if core == len(values) and dispatched:
        return ()
    forms: list[AllowForm] = []
    if inner < len(seen):
        need = core - inner + 1 if dispatched else 0
        forms.append(AllowForm(Track(seen, (inner,), _NOWHERE), need))
    if inner > 0:
        nothing_run = core == len(values)
        forms.append(AllowForm(Track(seen, (0,), _NOWHERE), 0 if nothing_run else core + 1, nothing_run))
    return tuple(forms)


def _behind_xargs(values: tuple[str | None, ...], reach: WrapperReach) -> tuple[str | None, ...]:
    seen = replaced_words(values, reach.replaced) if reach.replaced else values
    return (*seen, None) if reach.inner < len(values) else (*seen, "echo", None)


def allowing(rules: Automaton, forms: Sequence[AllowForm]) -> Rule | None:
    """The first allow rule that covers one of the forms."""
    for form in forms:
        ends = rules.matches(form.track)
        while ends:
            rule, pattern = rules.first(ends)
            if pattern.fixed >= form.need and (pattern.exact or not form.exact):
                return rule
            ends &= ends - 1
    return None
