"""Real data: fetched with a checksum, converted, loaded; and what cannot be had."""

import dataclasses
import functools
import hashlib
import http.server
import threading

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from orthoplus import datasets
from orthoplus.datasets import FetchError, MissingDataError, fetch
from orthoplus.datasets.download import address_of, convert


def publish(folder, source, arrays):
    """The public file of a source in a folder; the source with its size and checksum."""
    path = folder / source.repository / source.commit / source.path
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, arrays, do_compression=True)
    raw = path.read_bytes()
    return dataclasses.replace(source, bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())


@pytest.fixture
def documents(rng, tmp_path, monkeypatch):
    """A server that has T-l10 with 6 documents, and the counts."""
    counts = rng.poisson(1.0, (6, 9)).astype(float)
    counts[:, 3] = 0.0
    counts[0, counts.any(axis=0).nonzero()[0]] += 1.0
    source = dataclasses.replace(datasets.sources()["T-l10"], shape=(6, 8), groups=2)
    labels = np.array([[1.0, 1, 1, 2, 2, 2]]).T
    server = tmp_path / "server"
    source = publish(server, source, {"A": csc_array(counts), "true_ans": labels})
    known = datasets.sources() | {"T-l10": source}
    for module in ("download", "real"):
        monkeypatch.setattr(f"orthoplus.datasets.{module}.sources", lambda: known)
    return counts, source, server.as_uri()


def test_fetch_converts_and_load_reads(documents, tmp_path):
    counts, _, base = documents
    path = fetch("T-l10", tmp_path / "sets", base=base)
    assert [found.name for found in path.parent.iterdir()] == ["T-l10.npz"]
    data = datasets.load_labelled("T-l10", tmp_path / "sets")
    assert (data.A.toarray() == np.delete(counts, 3, axis=1)).all()
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.n_classes == 2


def test_fetch_leaves_a_set_alone_that_is_there(tmp_path):
    (tmp_path / "Yale.npz").write_bytes(b"mine")
    assert fetch("Yale", tmp_path, base="http://127.0.0.1:9").read_bytes() == b"mine"


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b""])
def test_fetch_keeps_nothing_of_another_file(documents, tmp_path, change):
    _, source, base = documents
    path = tmp_path / "server" / source.repository / source.commit / source.path
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FetchError, match="is not the expected file of T-l10: it must have"):
        fetch("T-l10", tmp_path / "sets", base=base)
    assert list((tmp_path / "sets").iterdir()) == []


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; a path that begins with ``endless`` never ends."""

    n_sent = 0

    def do_GET(self):
        if not self.path.startswith("/endless"):
            return super().do_GET()
        self.send_response(200)
        self.end_headers()
        try:
            while Handler.n_sent < 1e9:
                Handler.n_sent += self.wfile.write(bytes(1 << 16))
        except OSError:
            return None

    def log_message(self, *args):
        pass


@pytest.fixture
def address(tmp_path):
    """The address of a server of the folder ``server``."""
    handler = functools.partial(Handler, directory=str(tmp_path / "server"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_fetch_over_http_converts_and_prints_nothing(documents, tmp_path, address, capfd):
    path = fetch("T-l10", tmp_path / "sets", base=address)
    assert [found.name for found in path.parent.iterdir()] == ["T-l10.npz"]
    assert capfd.readouterr() == ("", "")


def test_fetch_stops_reading_a_file_that_is_too_long(documents, tmp_path, address):
    with pytest.raises(FetchError, match="is not the expected file"):
        fetch("T-l10", tmp_path / "sets", base=f"{address}/endless")
    assert Handler.n_sent < 1e8
    assert list((tmp_path / "sets").iterdir()) == []


@pytest.mark.parametrize("base", ["{address}/elsewhere", "http://127.0.0.1:9", "file:///nowhere"])
def test_fetch_without_the_file_says_what_to_do(documents, tmp_path, address, base):
    with pytest.raises(
        FetchError, match=r"could not be downloaded .*Without internet access, download"
    ):
        fetch("T-l10", tmp_path / "sets", base=base.format(address=address))
    assert list((tmp_path / "sets").iterdir()) == []


def test_fetch_of_other_arrays_says_so(documents, tmp_path, rng):
    _, source, _ = documents
    savemat(tmp_path / "raw.mat", {"B": rng.random((3, 3))})
    with pytest.raises(FetchError, match="It lacks the expected arrays"):
        convert(source, tmp_path / "raw.mat")


def test_fetch_of_another_size_says_so(documents, tmp_path, rng):
    _, source, _ = documents
    savemat(tmp_path / "raw.mat", {"A": rng.random((5, 4)), "true_ans": np.ones((5, 1))})
    with pytest.raises(FetchError, match=r"T-l10 has shape \(5, 4\), but \(6, 8\) is expected"):
        convert(source, tmp_path / "raw.mat")


def test_images_and_features_are_converted(tmp_path, rng):
    for name, key in (("Yale", "fea"), ("kind_ORL", "U")):
        source = dataclasses.replace(datasets.sources()[name], shape=(6, 4))
        values = rng.random((6, 4))
        savemat(tmp_path / "raw.mat", {key: values, "gnd": np.arange(6.0)[:, None]})
        arrays = convert(source, tmp_path / "raw.mat")
        assert (arrays["A"] == values).all()
        assert arrays["labels"].tolist() == list(range(6))


def test_scene_pixels_run_along_rows_afterwards(tmp_path, rng):
    source = dataclasses.replace(
        datasets.sources()["Samson"], shape=(6, 4), image_shape=(2, 3), groups=2
    )
    cube, maps, spectra = rng.random((2, 3, 4)), rng.random((2, 3, 2)), rng.random((2, 4))
    columns = cube.transpose(2, 1, 0).reshape(4, 6)  # MATLAB: pixels run down the columns
    shares = maps.transpose(2, 1, 0).reshape(2, 6)
    savemat(tmp_path / "raw.mat", {"Y": columns, "M": spectra.T, "A": shares})
    arrays = convert(source, tmp_path / "raw.mat")
    assert (arrays["A"].reshape(2, 3, 4) == cube).all()
    assert (arrays["abundances"].reshape(2, 3, 2) == maps).all()
    assert (arrays["endmembers"] == spectra).all()


def test_sources_have_all_or_nothing_of_a_public_file():
    for source in datasets.sources().values():
        parts = (source.repository, source.commit, source.path, source.bytes, source.sha256)
        assert all(parts) or not any(parts)
        assert source.is_public_file or source.origin
        assert source.sha256 is None or len(source.sha256) == 64
    yale = datasets.sources()["Yale"]
    assert address_of(yale).endswith(f"{yale.commit}/Data/onmf/Yale_32x32.mat")


def test_missing_set_says_how_to_get_it(tmp_path):
    with pytest.raises(MissingDataError, match="`orthoplus data fetch Yale` downloads it"):
        datasets.load_labelled("Yale", tmp_path)
    with pytest.raises(MissingDataError, match="no single public file"):
        datasets.load_scene("UrbanCrop", tmp_path)


def test_unknown_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is unknown"):
        datasets.load_labelled("Iris", tmp_path)
    with pytest.raises(ValueError, match="is unknown"):
        fetch("Iris", tmp_path)


def test_real_set_is_of_the_size_of_its_source(load_data, tmp_path):
    np.savez(tmp_path / "Yale.npz", **load_data("Yale"))
    data = datasets.load_labelled("Yale", tmp_path)
    assert data.A.shape == datasets.sources()["Yale"].shape
    assert data.n_classes == datasets.sources()["Yale"].groups
