"""Read an HDF5 file through once and forget it: run as a script, in a process that may be killed.

It imports nothing of this package, so that it starts fast.
"""

import sys
from typing import Any

import h5py

_MOST_OBJECTS = 1000


def read_through(path: str, most_bytes: int) -> None:
    """Open every object, and read those that are not too large."""
    with h5py.File(path, "r") as file:
        pending: list[Any] = [file]
        for _ in range(_MOST_OBJECTS):
            if not pending:
                return
            item = pending.pop()
            if isinstance(item, h5py.Dataset):
                if not item.is_virtual and not item.external and item.nbytes <= most_bytes:
                    item[()]
            elif isinstance(item, h5py.Group):
                links = ((name, item.get(name, getlink=True)) for name in item)
                hard = [name for name, link in links if isinstance(link, h5py.HardLink)]
                pending.extend(item[name] for name in hard)


if __name__ == "__main__":
    read_through(sys.argv[1], int(sys.argv[2]))
