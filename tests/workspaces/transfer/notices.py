"""The notices of a transfer."""

from gencode.core.changes import describe_changes
from gencode.tasks.task_folders import FolderSummary


def said(ending: FolderSummary) -> str:
    return describe_changes(ending.changes) if ending.changes else ""
