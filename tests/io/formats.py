"""Write the same small matrix and cube in every supported format."""

import h5py
import numpy as np
import scipy.io
import scipy.sparse as sp

DENSE = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0], [0.0, 5.0, 6.0]])
CUBE = np.arange(2 * 3 * 4, dtype=np.float64).reshape(2, 3, 4)
TEXT = {np.float32: 4, np.float64: 5, np.uint8: 1, np.int16: 2, np.uint16: 12, np.int32: 3}


def write_csv(path, delimiter=",", header=True, names=True):
    lines = []
    if header:
        lines.append(delimiter.join([*(["name"] if names else []), "a", "b", "c"]))
    for i, row in enumerate(DENSE):
        lines.append(delimiter.join([*([f"r{i}"] if names else []), *map(str, row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_h5(path, sparse=None):
    with h5py.File(path, "w") as file:
        if sparse is None:
            file.create_dataset("X", data=DENSE, compression="gzip")
        else:
            matrix = sp.csr_array(DENSE) if sparse == "csr" else sp.csc_array(DENSE)
            group = file.create_group("X")
            group.attrs.update({"encoding-type": f"{sparse}_matrix", "shape": DENSE.shape})
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        for name, words in (("obs", ["r0", "r1", "r2", "r3"]), ("var", ["a", "b", "c"])):
            group = file.create_group(name)
            group.attrs["_index"] = "index"
            group.create_dataset("index", data=words)
        kind = file["obs"].create_group("kind")
        kind["codes"], kind["categories"] = np.array([0, 1, 1, 0], dtype=np.int8), ["u", "v"]


def write_mat73(path, sparse=False):
    with h5py.File(path, "w", userblock_size=512) as file:
        if sparse:
            matrix = sp.csc_array(DENSE)
            group = file.create_group("A")
            group.attrs["MATLAB_sparse"] = np.uint64(DENSE.shape[0])
            group["data"], group["ir"], group["jc"] = (
                matrix.data,
                matrix.indices.astype(np.uint64),
                matrix.indptr.astype(np.uint64),
            )
        else:
            file["A"] = DENSE.T
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(116) + b" " * 8 + b"\x00\x02IM")


def write_envi(path, interleave="bsq", dtype=np.float64, order="<", values=CUBE, extra=""):
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    lines, samples, bands = values.shape
    path.with_suffix(".img").write_bytes(
        values.transpose(axes).astype(np.dtype(dtype).newbyteorder(order)).tobytes()
    )
    path.write_text(
        f"ENVI\ndescription = {{\n  a small image}}\nsamples = {samples}\nlines = {lines}\n"
        f"bands = {bands}\nheader offset = 0\ndata type = {TEXT[dtype]}\n"
        f"interleave = {interleave}\nbyte order = {int(order == '>')}\n{extra}",
        encoding="utf-8",
    )


COUNTS = sp.csc_array(np.array([[1, 0], [0, 3], [5, 0]]))  # 3 features x 2 cells


def write_cell_ranger(path, version=3, group="matrix", shape=COUNTS.shape, kinds=(b"Gene",) * 3):
    """Write counts of features in cells, as Cell Ranger does."""
    with h5py.File(path, "w") as file:
        matrix = file.create_group(group)
        for name in ("data", "indices", "indptr"):
            matrix[name] = getattr(COUNTS, name)
        matrix["shape"], matrix["barcodes"] = np.array(shape), [b"AAA-1", b"CCC-1"]
        ids, names = [b"g1", b"g2", b"g3"], [b"Actb", b"Cd3e", b"Cd3e"]
        if version == 3:
            for name, words in (("id", ids), ("name", names), ("feature_type", list(kinds))):
                matrix[f"features/{name}"] = words
        else:
            matrix["genes"], matrix["gene_names"] = ids, names
    return path


MATRIX_WRITERS = {
    "dense.npz": lambda path: np.savez(path, DENSE),
    "compressed.npz": lambda path: np.savez_compressed(path, X=DENSE, labels=np.arange(4)),
    "csr.npz": lambda path: sp.save_npz(path, sp.csr_array(DENSE)),
    "csc.npz": lambda path: sp.save_npz(path, sp.csc_array(DENSE)),
    "coo.npz": lambda path: sp.save_npz(path, sp.coo_array(DENSE)),
    "dia.npz": lambda path: sp.save_npz(path, sp.dia_array(DENSE)),
    "plain.npy": lambda path: np.save(path, DENSE),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(DENSE)),
    "dense.mat": lambda path: scipy.io.savemat(path, {"A": DENSE}),
    "compressed.mat": lambda path: scipy.io.savemat(path, {"A": DENSE}, do_compression=True),
    "sparse.mat": lambda path: scipy.io.savemat(path, {"A": sp.csc_array(DENSE)}),
    "v73.mat": write_mat73,
    "v73sparse.mat": lambda path: write_mat73(path, sparse=True),
    "named.csv": write_csv,
    "named.tsv": lambda path: write_csv(path, "\t"),
    "semicolon.csv": lambda path: write_csv(path, ";"),
    "bare.csv": lambda path: write_csv(path, header=False, names=False),
    "header.csv": lambda path: write_csv(path, names=False),
    "rows.csv": lambda path: write_csv(path, header=False),
    "sparse.mtx": lambda path: scipy.io.mmwrite(path, sp.coo_array(DENSE)),
    "dense.mtx": lambda path: scipy.io.mmwrite(path, DENSE),
    "dense.h5": write_h5,
    "dense.hdf5": write_h5,
    "csr.h5ad": lambda path: write_h5(path, "csr"),
    "csc.h5ad": lambda path: write_h5(path, "csc"),
}
