"""The JSON Schema of a result, read from the file that was named."""

import argparse
import json
from pathlib import Path
from typing import Any

from gencode.core.errors import UserMistake


def schema(args: argparse.Namespace) -> dict[str, Any] | None:
    """The JSON Schema of the file that was named, if one was; a UserMistake when it is none."""
    if "output_schema" not in args:
        return None
    path = Path(args.output_schema)
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UserMistake(f"The schema {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UserMistake(f"The schema {path} is not JSON: {error}.") from None
    from gencode.agent.output_schema import check_schema

    return check_schema(found)
