"""What every endpoint works with: one open GenCode and what the server keeps beside it (surfaces, server)."""

from dataclasses import dataclass

from gencode.app import GenCode
from gencode.questions.question_desk import QuestionDesk
from gencode.surfaces.http.chats import Chats
from gencode.surfaces.http.hub import Hub
from gencode.surfaces.http.inbox import Inbox


@dataclass(frozen=True)
class Site:
    """One server at work."""

    gen: GenCode
    desk: QuestionDesk
    hub: Hub
    chats: Chats
    inbox: Inbox
