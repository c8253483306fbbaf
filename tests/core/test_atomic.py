"""A file appears under its name only when it is complete, whatever happens to the disk."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from orthoplus.core import atomic
from orthoplus.core.atomic import write_atomically


@pytest.fixture(params=["nameless", "named"])
def kind(request, monkeypatch):
    """Files without a name until they are complete, as on Linux, and others."""
    if request.param == "named":
        monkeypatch.setattr(atomic, "_open_nameless", lambda folder: None)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("no files without a name on this system")


@pytest.mark.usefixtures("kind")
def test_file_is_left_as_it_was_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.usefixtures("kind")
def test_longest_name_and_text_path_are_written(tmp_path):
    path = tmp_path / ("x" * 251 + ".txt")
    write_atomically(str(path), lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.usefixtures("kind")
def test_full_disk_and_absent_folder_name_the_file(tmp_path):
    def full(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "a.txt", full)
    assert str(caught.value) == f"[Errno 28] No space left on device: '{tmp_path / 'a.txt'}'"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "b" / "a.txt", full)
    assert caught.value.filename == str(tmp_path / "b" / "a.txt")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("kind")
def test_mode_is_that_of_any_new_file(tmp_path):
    write_atomically(tmp_path / "a", lambda file: file.write(b"1"))
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


# NumPy 2.0 leaves an archive open if its last write fails; its end is then reported.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("kind")
@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes are those of Linux")
def test_disk_that_is_full_after_any_number_of_bytes_leaves_the_old_file(tmp_path):
    """The system itself refuses to write more: at every 64th byte of the file, and at its end."""
    path, old, new = tmp_path / "a.npz", np.zeros(3), np.arange(100.0)
    np.savez(path, old)
    whole = path.read_bytes()
    write_atomically(tmp_path / "new.npz", lambda file: np.savez(file, new))
    size = (tmp_path / "new.npz").stat().st_size
    (tmp_path / "new.npz").unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (*range(0, size, 64), size - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(OSError, match="too large") as caught:
                write_atomically(path, lambda file: np.savez(file, new))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == whole
        assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("step", ["replace", "link", "fdopen"])
def test_error_of_any_step_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, step, fail)
    with suppress(PermissionError):  # unless this kind of file has no such step
        write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_text() in ("old", "new")
    if step == "replace":
        assert path.read_text() == "old"
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["a.txt"]


WRITER = """
import sys
from orthoplus.core.atomic import write_atomically
number = 0
print("writing", flush=True)
while True:
    number += 1
    text = (f"{number:09d}" * 40_000).encode()
    def write(file):
        for start in range(0, len(text), 4096):
            file.write(text[start:start + 4096])
            file.flush()
    write_atomically(sys.argv[1], write)
"""


# The package is loaded once; each write is made by a process of its own.
KILLED = """
import json, os, signal, sys
from orthoplus.core import atomic
path = sys.argv[1]
for how, text in (word.split() for word in sys.argv[2:]):
    child = os.fork()
    if child == 0:
        if how == "killed":
            os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
        atomic.write_atomically(path, lambda file: file.write(text.encode()))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([code, open(path).read(), len(os.listdir(os.path.dirname(path)))]))
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="no files without a name on this system")
def test_what_a_kill_before_the_renaming_leaves_is_gone_after_the_next_write(tmp_path):
    path, source = tmp_path / "a.txt", str(Path(atomic.__file__).parents[2])
    expected = {
        "killed first": [0, "first", 1],  # a new file is not renamed
        "killed second": [-signal.SIGKILL, "first", 2],
        "killed third": [-signal.SIGKILL, "first", 2],
        "whole fourth": [0, "fourth", 1],
    }
    words = [sys.executable, "-c", KILLED, str(path), *expected]
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == list(expected.values())


@pytest.mark.usefixtures("kind")
def test_writers_of_the_same_file_do_not_disturb_each_other(tmp_path):
    path, errors = tmp_path / "a.txt", []

    def write_often(letter):
        try:
            for _ in range(100):
                write_atomically(path, lambda file: file.write(1000 * letter))
                text = path.read_bytes()
                assert text == 1000 * text[:1]
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=write_often, args=(letter,)) for letter in (b"a", b"b", b"c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="no files without a name on this system")
def test_writer_that_is_killed_leaves_a_whole_file_and_nothing_else(tmp_path):
    path, rng = tmp_path / "a.txt", np.random.default_rng(0)
    source = str(Path(atomic.__file__).parents[2])
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            env=os.environ | {"PYTHONPATH": source}, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout.readline() == "writing\n"
            time.sleep(0.02 + 0.1 * rng.random())
            process.send_signal(signal.SIGKILL)
        # A kill between the naming and the renaming leaves one file, which the next write removes.
        assert len([name for name in os.listdir(tmp_path) if name != "a.txt"]) <= 1
        if path.exists():
            text = path.read_text()
            assert len(text) == 360_000
            assert text == text[:9] * 40_000


@pytest.mark.usefixtures("kind")
def test_link_is_written_through_and_permissions_are_kept(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "real.txt").chmod(0o600)
    os.symlink("real.txt", tmp_path / "link.txt")
    write_atomically(tmp_path / "link.txt", lambda file: file.write(b"new"))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    assert (tmp_path / "real.txt").stat().st_mode & 0o777 == 0o600
    os.symlink("later.txt", tmp_path / "open.txt")  # to nothing yet
    write_atomically(tmp_path / "open.txt", lambda file: file.write(b"new"))
    assert (tmp_path / "later.txt").read_text() == "new"


@pytest.mark.usefixtures("kind")
def test_pipe_device_and_folder_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/null", tmp_path / "device")
    os.symlink("loop", tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    names = sorted(os.listdir(tmp_path))
    for name in names:
        with pytest.raises(OSError, match=r"pipe|Is a directory|Too many levels"):
            write_atomically(tmp_path / name, lambda file: file.write(b"new"))
    assert sorted(os.listdir(tmp_path)) == names
    assert (tmp_path / "pipe").is_fifo()
    assert not Path("/dev/null").is_file()
