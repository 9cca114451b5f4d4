"""An agent file in a folder."""

import os
from pathlib import Path


def write_agent(home: Path, name: str, tools: str, body: str = "Work.", more: str = "") -> Path:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: Does it.\ntools: {tools}\n{more}---\n{body}\n")
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
    return path
