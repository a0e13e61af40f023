"""Named, independent random streams derived from one seed.

Every random draw of a run comes from a stream with a name, for example
``seeds.stream("client", 3, "sampling", 17)``. A stream depends on the seed and on its name only:
not on the order in which streams are made, on the number of workers, or on the runtime. So a
client that is restarted in round 17 draws in round 17 what it would have drawn anyway.
"""

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seeds:
    """A node in the tree of random streams.

    Args:
        root: the run's seed, 0 or more.
        path: names from the root to here; the root itself has none.
    """

    root: int
    path: tuple[str | int, ...] = ()

    def child(self, *names: str | int) -> "Seeds":
        """The subtree below ``names``."""
        return Seeds(self.root, self.path + names)

    def stream(self, *names: str | int) -> np.random.Generator:
        """A fresh generator for the stream at ``names`` below this node."""
        return np.random.default_rng(self.integer(*names))

    def integer(self, *names: str | int) -> int:
        """A 128-bit seed for the stream at ``names``, for libraries that take an integer."""
        text = _spelt((self.root, *self.path, *names))
        return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")

    def key(self, *names: str | int) -> bytes:
        """32 bytes for a cryptographic stream at ``names``, if the root is a secret.

        HMAC-SHA256 under the root's decimal digits of the text ``('key', …)``, which holds the
        whole path. Whoever learns one key learns nothing about the root or any other key.
        """
        text = _spelt(("key", *self.path, *names))
        return hmac.digest(str(self.root).encode(), text, "sha256")


def _spelt(names: tuple[str | int, ...]) -> bytes:
    # int: numpy's 3 prints as np.int64(3), and would name another stream than Python's 3.
    return repr(tuple(name if isinstance(name, str) else int(name) for name in names)).encode()
