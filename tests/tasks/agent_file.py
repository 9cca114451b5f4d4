"""An agent file in a folder."""

from pathlib import Path


def write_agent(folder: Path, name: str, tools: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: Leads others.\ntools: {tools}\n---\nLead.\n"
    (folder / f"{name}.md").write_text(text)
