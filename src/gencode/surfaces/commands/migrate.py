"""`gen migrate`: bring the database up to date."""

import argparse

from gencode.app import migrate
from gencode.places import database
from gencode.surfaces.plain import answer, answer_json


def run(args: argparse.Namespace) -> int:
    """Migrate, and say from which version to which."""
    path = database()
    before, after = migrate(path)
    if "json" in args:
        answer_json({"database": str(path), "before": before, "after": after})
    elif before == after:
        answer(f"The database {path} is up to date (version {after}).")
    else:
        answer(f"The database {path} went from version {before} to version {after}.")
    return 0
