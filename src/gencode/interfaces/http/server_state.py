"""What every endpoint works with: one open GenCode and what the server keeps beside it (surfaces, server)."""

from dataclasses import dataclass

from gencode.app import GenCode
from gencode.interfaces.http.chat_addresses import Chats
from gencode.interfaces.http.chat_inbox import Inbox
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.task_times import TimesReader
from gencode.questions.question_desk import QuestionDesk


@dataclass(frozen=True)
class Site:
    """One server at work."""

    gen: GenCode
    desk: QuestionDesk
    hub: Hub
    chats: Chats
    inbox: Inbox
    times: TimesReader
