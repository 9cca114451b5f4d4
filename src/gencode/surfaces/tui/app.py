"""The terminal app: opens GenCode after its first frame, hands events to the screens and words to the talk."""

import argparse
import asyncio
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import Event
from gencode.core.rules import Mode
from gencode.delegation.reach import Verb
from gencode.runtime.asking import Answer, Question
from gencode.runtime.broker import Broker, Waiting
from gencode.settings import gen_home, remember
from gencode.surfaces.acts import act
from gencode.surfaces.completing import Offer, Words, files_below, offers
from gencode.surfaces.history import History
from gencode.surfaces.notices import Notice
from gencode.surfaces.pages import next_mode
from gencode.surfaces.slash import is_command, parse
from gencode.surfaces.striking import would_hit
from gencode.surfaces.talk import Talk
from gencode.surfaces.tui.deeds import perform
from gencode.surfaces.tui.dialogs import AskScreen, ConfirmScreen, InquiryScreen
from gencode.surfaces.tui.paper import Paper
from gencode.surfaces.tui.screens import NOTICE_STYLES, AgentScreen, ConversationScreen, TranscriptScreen
from gencode.surfaces.visible import visible_line

if TYPE_CHECKING:
    from gencode.app import GenCode

FRAMES = 30
NOTICE_SECONDS = 15.0
MOST_NOTICES = 4
TWICE_SECONDS = 2.0
