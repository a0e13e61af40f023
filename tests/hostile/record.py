"""What campaigns have tried so far, in ``record.json``, from which documents take figures."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("record.json")
SAVE_EVERY = 60.0


@dataclass
class Tally:
    """One subject of a campaign.

    Attributes:
        tried: all seeds below it were tried.
        found: how they ended, and how often.
        failing: what is wrong, by seed; a seed is taken out once it passes again.
        mended: seeds that failed once and pass since.
    """

    tried: int = 0
    found: dict[str, int] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    mended: int = 0

    def note(self, found: Mapping[str, int], failing: Mapping[int, str], tried: int) -> None:
        """Adds the seeds up to ``tried``."""
        self.found = dict(sorted((Counter(self.found) + Counter(found)).items()))
        self.failing |= {str(seed): what for seed, what in failing.items()}
        self.tried = tried

    def note_again(self, seed: int, ended: str) -> None:
        """A seed that failed passes now."""
        del self.failing[str(seed)]
        self.mended += 1
        self.note({ended: 1}, {}, self.tried)


class Record:
    """The tallies of all campaigns, by campaign and subject.

    Args:
        file: where they are stored; each change replaces it as a whole.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file

    def read(self) -> dict[str, dict[str, Tally]]:
        """All of them."""
        if not self._file.exists():
            return {}
        stored = json.loads(self._file.read_text())
        return {
            campaign: {name: Tally(**tally) for name, tally in subjects.items()}
            for campaign, subjects in stored.items()
        }

    def tally(self, campaign: str, subject: str) -> Tally:
        """One of them; it may be empty."""
        return self.read().get(campaign, {}).get(subject, Tally())

    def change(self, campaign: str, subject: str, how: Callable[[Tally], object]) -> None:
        """Changes one tally, and leaves the others as they are on the disk now."""
        tallies = self.read()
        tally = tallies.setdefault(campaign, {}).setdefault(subject, Tally())
        how(tally)
        rows = {
            name: {key: asdict(subjects[key]) for key in sorted(subjects)}
            for name, subjects in sorted(tallies.items())
        }
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        draft.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        draft.replace(self._file)
