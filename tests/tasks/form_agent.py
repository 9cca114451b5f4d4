"""An agent that fills in a form."""

import json
from pathlib import Path


def agent(home: Path, name: str, schema: object) -> Path:
    file = home / ".gen" / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    head = f"name: {name}\ndescription: d\ntools: Read\noutput-schema: {json.dumps(schema)}"
    file.write_text(f"---\n{head}\n---\nList files.")
    return file
