"""The compiled loops work wherever the package is installed, with a cache if there can be one."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import orthoplus
from orthoplus.kernels.fused import cache
from orthoplus.kernels.fused.cache import CACHE, KernelCache, find_cache
from waiting import PATIENCE

# Import the kernels again in each environment, in one process, so that Numba is loaded only once.
REPORT = """
import importlib, json, os, pathlib, sys, tempfile
import numba, numpy
for changes in json.loads(sys.argv[1]):
    tempfile.tempdir = changes.pop("tempdir", None)
    if "remove" in changes:
        pathlib.Path(changes.pop("remove")).unlink()
    before = dict(os.environ)
    os.environ.update(changes)
    numba.config.reload_config()
    setting = numba.config.CACHE_DIR
    for name in [name for name in sys.modules if name.startswith("orthoplus.kernels")]:
        del sys.modules[name]
    kernels = importlib.import_module("orthoplus.kernels")
    assert kernels.row_energy(numpy.ones((3, 2))) == 6.0
    assert numba.config.CACHE_DIR == setting
    CACHE = sys.modules["orthoplus.kernels.fused.cache"].CACHE
    stats = sys.modules["orthoplus.kernels.fused.oblique"]._row_energy.stats
    print(json.dumps({
        "kind": CACHE.kind,
        "folder": None if CACHE.folder is None else str(CACHE.folder),
        "used": stats.cache_path,
        "hits": sum(stats.cache_hits.values()),
    }))
    os.environ.clear()
    os.environ.update(before)
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return where things are: the copy of the package, homes, folders for temporary files."""
    root = tmp_path_factory.mktemp("installed")
    for name in ("tmp", "unused", "user"):
        (root / name).mkdir()
    return SimpleNamespace(
        site=root / "site",
        beside=root / "site/orthoplus/kernels/fused/__pycache__",
        home=root / "home",
        user=root / "user",
        own=root / "own",
        tmp=root / "tmp",
        unused=root / "unused",
    )


@pytest.fixture(scope="module")
def found(folders):
    """Return the cache that the package finds in each case, if nothing else can be written.

    Where a folder would be made there is a file: that stops even the superuser.
    """
    source = Path(orthoplus.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folders.site / "orthoplus", ignore=ignored)
    folders.beside.touch()
    folders.home.touch()
    environment = {name: value for name, value in os.environ.items() if name[:6] != "NUMBA_"}
    for name in ("XDG_CACHE_HOME", "TEMP", "TMP"):
        environment.pop(name, None)
    own = {"PYTHONPATH": folders.site, "HOME": folders.home, "TMPDIR": folders.tmp}
    environment |= {name: str(path) for name, path in own.items()}
    unused = {"TMPDIR": str(folders.unused)}
    cases = {
        "first": {},
        "second": {},
        "no folder": {"tempdir": str(folders.home)},  # temporary files would be within a file
        "user": unused | {"HOME": str(folders.user)},
        "setting": unused | {"NUMBA_CACHE_DIR": str(folders.own)},
        "beside": unused | {"remove": str(folders.beside)},
    }
    done = subprocess.run(
        [sys.executable, "-c", REPORT, json.dumps(list(cases.values()))],
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, map(json.loads, done.stdout.splitlines()), strict=True))


def test_loops_are_kept_among_temporary_files_if_nothing_else_can_be_written(found, folders):
    first, second = found["first"], found["second"]
    assert (first["kind"], first["hits"]) == ("temporary", 0)
    assert (second["kind"], second["hits"]) == ("temporary", 1)
    assert first["used"] == first["folder"] == second["folder"]
    (root,) = folders.tmp.iterdir()
    assert Path(first["folder"]).is_relative_to(root)
    assert root.stat().st_mode & 0o777 == 0o700
    assert list(Path(first["folder"]).glob("*.nbi"))


def test_loops_work_without_a_cache_if_nothing_can_be_written(found):
    assert found["no folder"] == {"kind": "none", "folder": None, "used": None, "hits": 0}


def test_cache_of_the_user_comes_before_temporary_files(found, folders):
    assert found["user"]["kind"] == "user"
    assert Path(found["user"]["folder"]).is_relative_to(folders.user)
    assert not list(folders.unused.iterdir())


def test_setting_of_the_user_is_kept(found, folders):
    assert found["setting"]["kind"] == "user"
    assert Path(found["setting"]["folder"]).is_relative_to(folders.own)


def test_loops_are_kept_beside_the_source_if_that_can_be_written(found, folders):
    assert found["beside"]["kind"] == "package"
    assert found["beside"]["folder"] == found["beside"]["used"] == str(folders.beside)


def test_loops_that_are_not_compiled_have_no_cache(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert find_cache() == KernelCache("none")


def test_every_loop_is_in_the_folder_of_the_cache():
    from orthoplus.kernels.fused import centers, groups, oblique, pairs, rows

    for module in (centers, groups, oblique, pairs, rows):
        loops = [loop for loop in vars(module).values() if hasattr(loop, "py_func")]
        assert loops
        assert {loop.stats.cache_path for loop in loops} == {CACHE.folder and str(CACHE.folder)}


def twice(x):
    return 2 * x


def compiled_twice(root):
    return KernelCache("user", root=root).njit()(twice)


DAMAGES = {
    "empty index": (".nbi", lambda raw: b""),
    "other index": (".nbi", lambda raw: b"garbage\n"),
    "cut code": (".nbc", lambda raw: raw[:100]),
    "no code": (".nbc", lambda raw: None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_cache_is_written_again(tmp_path, damage):
    assert compiled_twice(tmp_path)(2) == 4
    suffix, change = DAMAGES[damage]
    (file,) = tmp_path.rglob(f"*{suffix}")
    raw = change(file.read_bytes())
    file.unlink() if raw is None else file.write_bytes(raw)
    for n_hits in (0, 1):
        loop = compiled_twice(tmp_path)
        assert loop(2) == 4
        assert sum(loop.stats.cache_hits.values()) == n_hits


def test_full_disk_leaves_loops_without_a_cache(tmp_path, monkeypatch):
    from numba.core.caching import IndexDataCacheFile

    def full(self, name, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_save_data", full)
        assert compiled_twice(tmp_path)(2) == 4
    assert not list(tmp_path.rglob("*.nb[ic]"))  # an index would name code that was not saved


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_temporary_folder_is_made_once_and_private(temporary):
    root = cache._temporary_root()
    assert root is not None
    assert root.parent == temporary
    assert cache._temporary_root() == root
    if os.name == "posix":
        assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes and owners are those of POSIX")
def test_temporary_folder_that_others_may_write_is_not_used(temporary):
    cache._temporary_root().chmod(0o777)
    assert cache._temporary_root() is None


@pytest.mark.skipif(os.name != "posix", reason="modes and owners are those of POSIX")
def test_temporary_folder_of_somebody_else_is_not_used(temporary, monkeypatch):
    somebody = os.getuid() + 1
    cache._temporary_root().rename(temporary / f"orthoplus-kernels-{somebody}")
    monkeypatch.setattr(os, "getuid", lambda: somebody)
    assert cache._temporary_root() is None


def test_temporary_folder_that_is_a_link_or_a_file_is_not_used(temporary):
    root = cache._temporary_root()
    root.rename(temporary / "elsewhere")
    root.symlink_to(temporary / "elsewhere")
    assert cache._temporary_root() is None
    root.unlink()
    root.touch()
    assert cache._temporary_root() is None


def compilation(module="orthoplus.kernels.fused.rows"):
    """Return what Numba passes to a listener."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(__module__=module)})


def test_note_is_given_once_and_only_for_long_compilations_of_ours(monkeypatch, caplog, tmp_path):
    clock = [0.0]
    caplog.set_level("WARNING", logger="orthoplus")  # the command line silences it
    monkeypatch.setattr(cache.time, "perf_counter", lambda: clock[0])
    note = cache.CompileNote(KernelCache("user", tmp_path))

    def compile_for(seconds, **options):
        note.on_start(compilation(**options))
        clock[0] += seconds
        note.on_end(compilation(**options))

    compile_for(0.6)
    assert not caplog.messages
    compile_for(5.0, module="somebody.else")
    compile_for(5.0, module=None)  # made by `exec`, as pynndescent does
    assert not caplog.messages
    note.on_start(compilation())
    compile_for(0.6)  # within the other: its end is soon enough
    assert caplog.messages == [note.text]
    compile_for(9.0)
    note.on_end(compilation())
    assert len(caplog.messages) == 1
    assert str(tmp_path) in note.text
    assert "every process" in cache.CompileNote(KernelCache("none")).text


SILENCED = """
import logging
from orthoplus.kernels.fused import cache
cache._SILENT_SECONDS = 0.0
logging.getLogger("orthoplus").setLevel("ERROR")
import numpy
from orthoplus import kernels
assert kernels.row_energy(numpy.ones((3, 2))) == 6.0
assert not sum(kernels.fused.oblique._row_energy.stats.cache_hits.values())
"""


def run_code(code, folder):
    """Run code in a process that caches loops in a folder; return what it prints."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_note_is_silenced_by_the_logger(tmp_path):
    assert run_code(SILENCED, tmp_path).stderr == ""


CONJUGATE = """
import hashlib, numpy
from orthoplus.kernels.fused import cache, delta
cache._SILENT_SECONDS = 0.0
for seed in range(50):
    rng = numpy.random.default_rng(seed)
    bent, H, Z = rng.standard_normal((3, 3, 40))
    X, d, direction = abs(Z) * (Z > 0), numpy.zeros((3, 40)), numpy.empty((3, 40))
    delta.project_face_into(X, Z, H, direction)
    vectors = (d, direction.copy(), direction)
    for _ in range(3):
        print(delta.conjugate_step_into(bent, (X, Z), (0.3, 0.1), vectors))
    print(hashlib.sha256(d).hexdigest())
"""


@pytest.mark.parametrize(
    "path", sorted(Path(cache.__file__).parent.glob("*.py")), ids=lambda path: path.stem
)
def test_loops_that_reorder_sums_are_not_called_by_loops(path):
    """They are inlined instead, because the copies of a loop may sum in different orders."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    loops = {
        node.name: (node, {ast.unparse(one) for one in node.decorator_list})
        for node in body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }
    made = {
        ast.unparse(name): ast.unparse(value.func)
        for node in body
        if isinstance(node, ast.Assign)
        for name, value in _pairs(node.targets[0], node.value)
        if isinstance(value, ast.Call)
    }
    reorders = {name for name, call in made.items() if call == "reordering"}
    for name, (node, _) in loops.items():
        called = {ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
        wrong = [one for one in called & set(loops) if loops[one][1] & reorders]
        assert wrong == [], f"{name} calls {wrong}; decorate them with reordering_inlined()"


def _pairs(target, value):
    if isinstance(target, ast.Tuple):
        return zip(target.elts, value.elts, strict=True)
    return [(target, value)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs of the same loops: the first one compiles them, the second one does not."""
    folder = tmp_path_factory.mktemp("cache")
    return [run_code(CONJUGATE, folder) for _ in range(2)]


def test_loops_from_the_cache_have_the_bits_of_those_just_compiled(runs):
    """A loop that calls another one could run any of its copies, which sum in different orders."""
    compiled, cached = runs
    assert compiled.stdout == cached.stdout


def test_note_reaches_stderr_once_unless_the_loops_are_in_the_cache(runs):
    compiled, cached = runs
    assert compiled.stderr.count("orthoplus: compiling") == 1
    assert cached.stderr == ""
