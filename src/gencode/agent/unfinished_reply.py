"""Recognises a reply that only announces work instead of doing it.

Only plain English announcements in the last sentence count, never the length of a reply. Possible offers,
questions, conditions, plans and quotations do not count.
"""

import re

_TAIL = 1_000
_MARKED = re.compile(r"\s*(?:[-*+•>|#]|\d+[.)]\s|```|~~~)")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)*_]*\s+")
_OFFER = re.compile(
    r"\b(?:you|your|yours|please|confirm(?:ed|ation)?|approv(?:e|al|ed)|permission)\b"
    r"|\bif (?:needed|necessary|required|requested|asked|wanted|desired|so|not|that|this)\b"
    r"|\b(?:as|when|where|whenever|wherever) (?:needed|necessary|required|requested|asked)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|once|when|whenever|after|before|until|should|would|could|in case|assuming|given)\b",
    re.IGNORECASE,
)

_OPENING = (
    r"(?:(?:now|next|then|so|and|but|first|finally|also|ok|okay|alright|all right|great|good|perfect|right"
    r"|well|sure|hmm|excellent|from here|at this point)\b[,:.!—–-]*\s+)*"
)
_BETWEEN = r"(?:(?:also|just|quickly|first|next|then|briefly|further|try to|try and|need to|have to)\s+)*"
_AT_ONCE = (
    r"(?:(?:right )?now|go ahead and|proceed (?:to|with)|start (?:by|with)|begin (?:by|with)"
    r"|continue (?:by|with)|move on to|turn to)"
)
_LOOKING = (
    r"(?:check|look|read|search|find|examine|inspect|explore|investigate|analy[sz]e|review|open|see|verify"
    r"|scan|trace|dig|grep|compare|gather|collect|fetch|locate|list|go through|double-check"
    r"|take a (?:closer |quick )?look)"
)
_DOING = (
    r"(?:run|execute|test|write|create|add(?! that)|implement|fix|update|edit|change|modify|refactor|remove"
    r"|delete|rename|move|install|build|compile|apply|make|do|try|start|begin|continue|proceed|set up|send"
    r"|launch|delegate|summari[sz]e|draft|prepare|put together|generate|produce|document|rewrite|replace"
    r"|correct)"
)
_ACTING = rf"(?:{_LOOKING}|{_DOING})"
_ING = r"(?:\w{2,}ing)"

_LEAD = re.compile(r"^(?P<lead>[^,;:]{1,90}),\s+(?P<rest>.+)$", re.DOTALL)
_LET = re.compile(rf"{_OPENING}let(?: me|['’]s| us)\s+{_BETWEEN}(?:{_AT_ONCE}\s+)?{_ACTING}\b", re.IGNORECASE)
_GOING = re.compile(
    rf"{_OPENING}I(?:['’]m| am)\s+(?:now\s+)?(?:going|about) to\s+{_BETWEEN}{_ACTING}\b", re.IGNORECASE
)
_WILL_NOW = re.compile(
    rf"(?:{_OPENING}I(?:['’]ll| will)\s+{_BETWEEN}{_AT_ONCE}\s+{_BETWEEN}(?:{_ACTING}\b|{_ING}\b)"
    rf"|(?:[a-z]+,\s+)?now,?\s+I(?:['’]ll| will)\s+{_BETWEEN}{_ACTING}\b)",
    re.IGNORECASE,
)
_WILL_LOOK = re.compile(rf"{_OPENING}I['’]ll\s+{_BETWEEN}{_LOOKING}\b", re.IGNORECASE)
_WILL = re.compile(rf"{_OPENING}I(?:['’]ll| will)\s+{_BETWEEN}{_ACTING}\b", re.IGNORECASE)


def announces(text: str) -> bool:
    """Whether the last sentence of a reply says what the agent is about to do."""
    sentence = _last_sentence(text)
    if not sentence or sentence.endswith("?"):
        return False
    unfinished = sentence.endswith((":", "…", "..."))
    about = _said(sentence, unfinished) or _said_after_lead(sentence, unfinished)
    return about and not _OFFER.search(sentence)


def _said_after_lead(sentence: str, unfinished: bool) -> bool:
    led = _LEAD.match(sentence)
    return led is not None and not _CONDITION.search(led["lead"]) and _said(led["rest"], unfinished)


def _said(sentence: str, unfinished: bool) -> bool:
    patterns = (_LET, _GOING, _WILL_NOW, _WILL_LOOK, *((_WILL,) if unfinished else ()))
    return any(pattern.match(sentence) for pattern in patterns)


def _last_sentence(text: str) -> str:
    """The last sentence of a reply that ends in prose; empty if it ends in a list, a table or code."""
    tail = text.rstrip()[-_TAIL:]
    line = tail.rpartition("\n")[2]
    if _MARKED.match(line) and not line.lstrip().startswith("**"):
        return ""
    plain = line.strip().strip("*_").strip()
    return _SENTENCE_END.split(plain)[-1].strip("*_ ")
