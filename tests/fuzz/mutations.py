"""Create intact files of every format, and corrupt them randomly or on purpose."""

import gzip
import io
import struct
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

sys.path.append(str(Path(__file__).parents[1] / "io"))

from formats import (
    DENSE,
    MATRIX_WRITERS,
    write_cell_ranger,
    write_csv,
    write_envi,
    write_h5,
)

# What no answer may show: a file beside the others holds it.
SECRET_NUMBER, SECRET_WORD = 424_242.0, "SECRET"
# Their readers start a process for each file, which takes a few tenths of a second.
ON_TRIAL = (".h5", ".hdf5", ".h5ad", ".mat", ".mtx", ".parquet")
# Numbers of headers that ask for much, or for less than nothing.
_EXTREME = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1]
_WORDS = [
    b"99999999999",
    b"-1",
    b"1e400",
    b"nan",
    b"\x00",
    b"\xff\xfe",
    b",,,,",
    b'"',
    b"\n\n",
    b"'",
]
# What texts that repeat themselves are made of.
_PIECES = [
    *(bytes([sign]) for sign in b"\"',; \t\n\r|#%-+./=(){}e01a"),
    *(b'""', b"\r\n", b"1.5", b"1,2\n", b'"a",', b"x y\n", b"NA", b"sep=", b"1,234", b"2020-01-01"),
    *(b"time_", b"id ", b"5%", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xa0", b"class"),
]


def write_table(path: Path) -> None:
    """Write a spreadsheet or a Parquet file."""
    import pandas as pd

    frame = pd.DataFrame(DENSE, columns=["a", "b", "c"], index=[f"r{i}" for i in range(len(DENSE))])
    frame.to_excel(path) if path.suffix == ".xlsx" else frame.to_parquet(path)


def write_packed(path: Path) -> None:
    """Write numbers that attributes unpack."""
    with h5py.File(path, "w") as file:
        packed = file.create_dataset("X", data=DENSE.astype("i2"), fillvalue=-7)
        for name, value in (("scale_factor", 0.5), ("_FillValue", -1), ("valid_range", [0, 99])):
            packed.attrs[name] = np.asarray(value, dtype="f8" if name == "scale_factor" else "i2")


def write_gzip(path: Path) -> None:
    """Write a compressed table."""
    plain = path.with_suffix("")
    write_csv(plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))


def write_brain(path: Path) -> None:
    """Write a 4D volume or data on a surface."""
    import nibabel

    if path.suffix == ".gii":
        array = nibabel.gifti.GiftiDataArray(DENSE.astype(np.float32))
        nibabel.gifti.GiftiImage(darrays=[array]).to_filename(path)
        return
    values = np.resize(DENSE, (2, 3, 2, 2)).astype(np.float32)
    nibabel.Nifti1Image(values, np.eye(4)).to_filename(path)


WRITERS = MATRIX_WRITERS | {
    "scene.hdr": write_envi,
    "sheet.xlsx": write_table,
    "frame.parquet": write_table,
    "packed.csv.gz": write_gzip,
    "cells.h5": write_cell_ranger,
    "packed.h5": write_packed,
    "volume.nii": write_brain,
    "volume.nii.gz": write_brain,
    "surface.gii": write_brain,
    "words.txt": lambda path: path.write_text("cat\ndog\ncat\nmouse\n", encoding="utf-8"),
}


def write_secret(folder: Path) -> Path:
    """Write what must not be reached, as HDF5 and as raw bytes."""
    path = folder / "secret.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.full(DENSE.shape, SECRET_NUMBER)
        file["vector"] = np.full(DENSE.size, SECRET_NUMBER)
        for name, length in zip(("obs", "var"), DENSE.shape, strict=True):
            group = file.create_group(name)
            group.attrs["_index"] = "index"
            group["index"] = [SECRET_WORD] * length
    (folder / "secret.raw").write_bytes(np.full(DENSE.size, SECRET_NUMBER).tobytes())
    return path


def mutated(raw: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes after one to four changes: flips, numbers, words, cuts, copies."""
    data = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(len(data) + 1))
        kind = rng.integers(7)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[place : place + 4] = rng.bytes(4)
        elif kind == 2:
            size, code = [(2, "H"), (4, "I"), (8, "Q")][rng.integers(3)]
            number = _EXTREME[rng.integers(len(_EXTREME))] % (1 << (8 * size))
            data[place : place + size] = struct.pack(f"{'<>'[rng.integers(2)]}{code}", number)
        elif kind == 3:
            data[place:place] = _WORDS[rng.integers(len(_WORDS))]
        elif kind == 4:
            del data[place : place + int(rng.integers(1, 64))]
        elif kind == 5:
            del data[max(8, place) :]
        else:
            data[place:place] = data[: int(rng.integers(1, 512))]
    return bytes(data)


def hostile_hdf5(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write an HDF5 file in which some parts lead to another file, or in a circle."""
    kind = ["dense", "csr", "csc", "cells"][rng.integers(4)]
    write_cell_ranger(path) if kind == "cells" else write_h5(path, kind)
    with h5py.File(path, "r+") as file:
        parts: list[str] = []
        file.visit(parts.append)
        for name in rng.permutation(parts)[: rng.integers(1, 4)].tolist():
            if name not in file:
                continue
            inside = ["/X", "/vector", "/obs", "/obs/index", "/var"][rng.integers(5)]
            shape = getattr(file[name], "shape", None) or (4,)
            del file[name]
            kind = rng.integers(6)
            if kind == 0:
                file[name] = h5py.ExternalLink(secret.name, inside)
            elif kind == 1:
                file[name] = h5py.SoftLink("/")
            elif kind == 2:
                layout = h5py.VirtualLayout(shape, "f8")
                layout[...] = h5py.VirtualSource(str(secret), "vector", shape)
                file.create_virtual_dataset(name, layout)
            elif kind == 3:
                raw = [(str(secret.with_suffix(".raw")), 0, 8 * DENSE.size)]
                file.create_dataset(name, shape, "f8", external=raw)
            elif kind == 4:
                file[name] = file["/"]
            else:
                file.create_dataset(name, (1 << 40,), "f8", chunks=(1 << 20,))


def hostile_surface(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write a GIFTI file whose array is in another file, far too long, or an entity."""
    write_brain(path)
    length = _EXTREME[rng.integers(len(_EXTREME))]
    raw = secret.with_suffix(".raw")
    changes = [
        (b'ExternalFileName=""', f'ExternalFileName="{(raw, raw.name)[rng.integers(2)]}"'.encode()),
        (b"GZipBase64Binary", b"ExternalFileBinary"),
        (b"FLOAT32", b"FLOAT64"),
        (b'Dim0="', f'Dim0="{length}'.encode()),
        (b"<Data>", b"<Data>" + gzip.compress(bytes(1 << 20))[:100]),
        (b'gifti.dtd">', b'gifti.dtd" [<!ENTITY e "eeeeeeee">]>'),
    ]
    text = path.read_bytes()
    for old, new in changes:
        text = text.replace(old, new) if rng.random() < 0.5 else text
    path.write_bytes(text)


def hostile_archive(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write an .npz whose headers promise what it does not have, or far too much."""
    kind = ["dia", "coo", "csr"][rng.integers(3)]
    length = int(_EXTREME[rng.integers(len(_EXTREME))] % (1 << 62))
    parts = {"data": np.ones(1), "shape": np.array([3, length]), "format": np.array(kind.encode())}
    parts |= {"indices": np.zeros(1, np.int64), "indptr": np.array([0, 1, 1, length])}
    parts |= {"row": np.array([0]), "col": np.array([length]), "offsets": np.array([length])}
    if kind == "dia":
        parts["data"] = np.ones((1, 1))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in parts.items():
            file = io.BytesIO()
            np.save(file, values)
            raw = file.getvalue()
            if rng.random() < 0.15:
                raw = raw.replace(b"(1,", f"({length},".encode())
            if rng.random() < 0.1:
                raw = b"\x93NUMPY\x02\x00" + struct.pack("<I", length % (1 << 32)) + raw[10:]
            archive.writestr(f"{name}.npy", raw)


def hostile_text(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write a header that repeats itself, or a line that does not end."""
    n = int(rng.integers(100, 60_000))
    texts = {
        ".hdr": [b"ENVI" + b"\n" * n, b"ENVI\n" + b" =" * n, b"ENVI\nx = {" + b"\n{" * n],
        ".csv": [b"," * n, b'"' * n, b"1,2\n" * n + b"3", b"a" * n, b"1e" + b"9" * n, b"\n" * n],
        ".mtx": [
            b"%%MatrixMarket matrix coordinate real general\n" + b"%\n" * n,
            f"%%MatrixMarket matrix coordinate real general\n3 {n * 1000} 1\n1 1 1\n".encode(),
            f"%%MatrixMarket matrix array real general\n{n} {n}\n1\n".encode(),
        ],
    }[path.suffix]
    path.write_bytes(texts[rng.integers(len(texts))])


def hostile_periods(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write a long text in which a few words repeat themselves, then perhaps a few others."""
    n = int(10 ** rng.uniform(3, 6 if path.suffix == ".txt" else 5))

    def some(most: int) -> bytes:
        return b"".join(_PIECES[i] for i in rng.integers(len(_PIECES), size=rng.integers(1, most)))

    text = some(3)
    for _ in range(rng.integers(1, 3)):
        unit = some(4)
        text += unit * (n // len(unit))
    path.write_bytes({".hdr": b"ENVI\n"}.get(path.suffix, b"") + text + some(4))


def hostile_bomb(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write few bytes that expand to many."""
    n = int(rng.integers(1 << 24, 1 << 27))
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(0, n, 1 << 20):
                file.write(b"1,2\n" * (1 << 18))
        return
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("X.npy" if path.suffix == ".npz" else "xl/worksheets/sheet1.xml", "w") as file,
    ):
        if path.suffix == ".npz":
            header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({n // 8},1), }}"
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode())
            file.write(b"\n")
        for _ in range(0, n, 1 << 20):
            file.write(bytes(1 << 20) if path.suffix == ".npz" else b"<row><c/></row>" * 69_905)


def hostile_sheet(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write an intact archive with damaged XML: hidden rows, merged cells, formulas, entities."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["", "a", "b"], *([f"r{i}", i + 0.5, 2 * i] for i in range(6))]:
        book.active.append(row)
    book.active.row_dimensions[3].hidden = bool(rng.integers(2))
    book.active.column_dimensions["C"].hidden = bool(rng.integers(2))
    book.active["B4"] = "=B3+1"
    book.active.merge_cells("A5:A6")
    whole, marks = (
        io.BytesIO(),
        [b"<c r=", b"<row r=", b"hidden=", b"ref=", b"min=", b"<f>"],
    )
    book.save(whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as archive:
        for name in source.namelist():
            raw = source.read(name)
            if name.endswith("sheet1.xml"):
                mark = marks[rng.integers(len(marks))]
                raw = raw.replace(mark, mark + _WORDS[rng.integers(len(_WORDS))], 1)
                raw = mutated(raw, rng) if rng.random() < 0.7 else raw
                if rng.random() < 0.2:
                    raw = b'<!DOCTYPE x [<!ENTITY e "eeeeeeee">]>' + raw
            archive.writestr(name, raw)


def hostile_pickle(path: Path, rng: np.random.Generator, secret: Path) -> None:
    """Write objects that would run code when unpickled."""
    np.save(path, np.array([_Trap(), 1], dtype=object), allow_pickle=True)


class _Trap:
    def __reduce__(self):
        return (sys.exit, (99,))


HOSTILE = {
    "links.h5ad": hostile_hdf5,
    "promises.npz": hostile_archive,
    "elsewhere.gii": hostile_surface,
    "header.hdr": hostile_text,
    "lines.csv": hostile_text,
    "entries.mtx": hostile_text,
    "periods.csv": hostile_periods,
    "periods.txt": hostile_periods,
    "periods.hdr": hostile_periods,
    "bomb.csv.gz": hostile_bomb,
    "bomb.npz": hostile_bomb,
    "bomb.xlsx": hostile_bomb,
    "damaged.xlsx": hostile_sheet,
    "trap.npy": hostile_pickle,
}


# What stands in for a bomb most of the time.
ORIGINALS = {
    "bomb.csv.gz": "packed.csv.gz",
    "bomb.npz": "compressed.npz",
    "bomb.xlsx": "sheet.xlsx",
}


def is_foreign(content) -> bool:
    """Return whether something of the secret file is in what was read."""
    values = content.values.data if sp.issparse(content.values) else np.asarray(content.values)
    names = (*(content.row_names or ()), *(content.column_names or ()))
    if values.dtype.kind in "USO":
        names = (*names, *values.ravel().tolist())
    elif (values == SECRET_NUMBER).any():
        return True
    return any(SECRET_WORD in name for name in names)
