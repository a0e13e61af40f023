"""Small shell scripts that stand in for other programs and note how they were called."""

from pathlib import Path


class Scripts:
    """Programs that stand in for Flower's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        folder.mkdir()
        self.log.touch()

    def add(self, name: str, then: str) -> None:
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{then}\n')
        file.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()
