"""Splits a compound question into several that each stand for themselves."""

import re

from gencode.offline_search.code_synonyms import leading_words, stop_words, weak_stems
from gencode.offline_search.stemmer import question_words, stem

MOST_PARTS = 8
_ASKING = r"(?:where|how|what|which|who|whose|when)"
_FINDING = r"(?:find|locate|search|look|show|list|tell|identify)"
_ITEM = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)]|\(?[a-h]\))\s+(\S.*)$")
_JOINT = re.compile(
    rf"(?:\s*[,;]\s*(?:and\s+|also\s+|then\s+)*|\s+and\s+(?:also\s+|then\s+)*)(?={_ASKING}\b)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[?!])\s+|(?<=[a-z)\d`'\"]\.)\s+(?=[A-Z])|\n{2,}")
_NEXT = re.compile(rf"^(?:also|and|then|next|finally|please|{_ASKING}|{_FINDING})\b", re.IGNORECASE)
_POINTING = re.compile(r"\b(?:it|its|they|them|their|that|this|these|those|there|one|ones)\b", re.IGNORECASE)
_SETTING = re.compile(
    rf"^(?:in|within|inside|for|regarding|concerning)\b(.+?)\b{_ASKING}\b", re.IGNORECASE | re.DOTALL
)
_VERBAL = re.compile(r"(?:ed|ing|en)$")


def split_question(text: str) -> list[str]:
    """The questions inside a text, each with the words it shares with the others; one if it is simple."""
    text = text.strip()
    pieces = _items(text) or _clauses(text)
    if len(pieces) < 2:
        return [text]
    pieces = [_as_question(piece) for piece in pieces]
    return [pieces[0], *(_carried(pieces[0], piece) for piece in pieces[1:])][:MOST_PARTS]


def _items(text: str) -> list[str]:
    """The items of a list, each after the words that introduce it."""
    lines = [line for line in text.splitlines() if line.strip()]
    items = [match.group(1).strip() for line in lines if (match := _ITEM.match(line))]
    if len(items) < 2:
        return []
    intro = " ".join(line.strip() for line in lines if not _ITEM.match(line)).rstrip(" :")
    shared = " ".join(_nouns(intro))
    return [f"{item} (about: {shared})" if shared else item for item in items]


def _clauses(text: str) -> list[str]:
    pieces: list[str] = []
    for sentence in _SENTENCE.split(text):
        for half in sentence.split(";"):
            for clause in _JOINT.split(half):
                _take(pieces, clause.strip(" ,;"))
    return pieces


def _take(pieces: list[str], clause: str) -> None:
    """A clause that asks is a piece of its own; anything else belongs to the piece before it."""
    if not clause:
        return
    asks = bool(_NEXT.match(clause)) and bool(content(clause))
    if not pieces:
        pieces.append(clause)
    elif not _asks_something(pieces[-1]):
        pieces[-1] = f"{pieces[-1]} {clause}"
    elif asks or clause.endswith("?"):
        pieces.append(re.sub(r"^(?:and|also|then|next|finally)\s+", "", clause, flags=re.IGNORECASE))
    else:
        pieces[-1] = f"{pieces[-1]}, {clause}"


def _asks_something(piece: str) -> bool:
    """`How` in `how and where are errors logged` is no question yet, nor is `In the parser module`."""
    asking = re.search(rf"\b(?:{_ASKING}|{_FINDING}|is|are|does|do)\b(.*)", piece, re.IGNORECASE | re.DOTALL)
    return bool(asking) and bool(content(asking.group(1)))


def content(text: str) -> list[str]:
    """The words of a text that say what it is about."""
    empty = stop_words() | leading_words()
    return [word for word in question_words(text) if word.lower() not in empty and len(word) > 1]


def _nouns(text: str) -> list[str]:
    telling = [word for word in content(text) if stem(word) not in weak_stems() and not _VERBAL.search(word)]
    return list(dict.fromkeys(telling))[:4]


def _carried(lead: str, piece: str) -> str:
    """A piece with the first one's nouns when it points back to them or says nothing itself."""
    strong = [word for word in content(piece) if stem(word) not in weak_stems()]
    setting = _SETTING.match(lead)
    shared = _nouns(setting.group(1)) if setting else []
    if _POINTING.search(piece) or not strong:
        shared += _nouns(lead)
    shared = [word for word in dict.fromkeys(shared) if word not in strong][:4]
    return f"{piece} (about: {' '.join(shared)})" if shared and "(about:" not in piece else piece


def _as_question(piece: str) -> str:
    asks = re.match(rf"{_ASKING}\b", piece, re.IGNORECASE)
    return piece[:1].upper() + piece[1:] + ("?" if asks and not piece.endswith("?") else "")


def task_title(text: str) -> str:
    """Three to five words for a task."""
    words = [word.lower() for word in content(text)][:4]
    return " ".join(["find", *words] if len(words) > 1 else ["find", "the", *(words or ["answer"])])
