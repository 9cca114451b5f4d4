"""Prints the tree of the package: each module with the first line of its docstring.

python bench/first_lines.py
"""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gencode"


def main() -> None:
    """Print one line for each module, in the order of the tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        print(f"{path.relative_to(SOURCE.parents[1])}  {text.partition(chr(10))[0]}")


if __name__ == "__main__":
    main()
