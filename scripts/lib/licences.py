"""Prints every package of this environment with its version and licence, and the texts that come with them."""

from importlib.metadata import Distribution, distributions
from pathlib import Path


def licence(package: Distribution) -> str:
    """What a package says its licence is."""
    told = package.metadata
    named = told.get("License-Expression") or ""
    classified = [
        each.rpartition(" :: ")[2] for each in told.get_all("Classifier") or () if each.startswith("License")
    ]
    written = (told.get("License") or "").strip().splitlines()
    return named or ", ".join(classified) or (written[0] if written else "unknown")


def texts(package: Distribution) -> list[str]:
    """The files of a licence that a package brings."""
    named = [
        file for file in package.files or () if {"LICENSE", "COPYING"} & set(file.stem.upper().split("-"))
    ]
    paths = [Path(str(file.locate())) for file in named]
    return [path.read_text("utf-8", errors="replace").strip() for path in paths if path.is_file()]


def main() -> None:
    """Print the list, then the texts."""
    found = sorted(distributions(), key=lambda package: package.metadata["Name"].lower())
    for package in found:
        print(f"{package.metadata['Name']} {package.version}: {licence(package)}")
    for package in found:
        for text in texts(package):
            print(f"\n{'=' * 80}\n{package.metadata['Name']} {package.version}\n\n{text}")


if __name__ == "__main__":
    main()
