"""The files of Pleiad and of the Python package safetensors have the same format."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture
def program(build_dir, run):
    """program(*words) returns the output of the test program."""

    def call(*words):
        ended = run(build_dir / "bin" / "safetensors", *words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return call


@pytest.fixture
def arrays():
    random = np.random.default_rng(5)
    return {
        "weights/äöü": random.standard_normal((7, 3)).astype(np.float32),
        "doubles": random.standard_normal((5, 2, 2)),
        "ints": np.arange(-4, 8, dtype=np.int32),
        "longs": np.arange(9, dtype=np.int64).reshape(9, 1) << 40,
        "halves": random.standard_normal((4, 4)).astype(np.float16),
        "bytes": np.arange(11, dtype=np.uint8),
        "flags": np.array([True, False, True]),
        "empty": np.zeros((0, 3), np.float32),
    }


METADATA = {"step": "12", "note": 'a "quoted" word'}
NAMES = {
    "float32": "F32",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "uint8": "U8",
    "bool": "BOOL",
}


def same(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype and array.shape == right[name].shape, name
        assert np.array_equal(array, right[name]), name


def test_we_read_what_the_package_writes(program, arrays, tmp_path):
    save_file(arrays, tmp_path / "theirs", metadata=METADATA)
    listed = json.loads(program("list", tmp_path / "theirs"))
    assert listed["metadata"] == METADATA
    assert listed["arrays"].keys() == arrays.keys()
    for name, array in arrays.items():
        ours = listed["arrays"][name]
        assert (ours["dtype"], ours["shape"]) == (NAMES[array.dtype.name], list(array.shape))
        assert bytes.fromhex(ours["bytes"]) == array.tobytes(), name


def test_the_package_reads_what_we_write(program, arrays, tmp_path):
    save_file(arrays, tmp_path / "theirs", metadata=METADATA)
    program("copy", tmp_path / "theirs", tmp_path / "ours")
    same(load_file(tmp_path / "ours"), arrays)
    with safe_open(tmp_path / "ours", framework="numpy") as file:
        assert file.metadata() == METADATA
    header = int.from_bytes((tmp_path / "ours").read_bytes()[:8], "little")
    assert (8 + header) % 64 == 0


def test_the_package_reads_every_part_of_a_saved_set(program, arrays, tmp_path):
    save_file(arrays, tmp_path / "theirs", metadata=METADATA)
    program("split", tmp_path / "theirs", tmp_path / "set", 3)
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())["manifest"]
    assert manifest["metadata"] == METADATA and len(manifest["parts"]) == 3
    parts = [load_file(tmp_path / "set" / part["file"]) for part in manifest["parts"]]
    same({name: np.concatenate([part[name] for part in parts]) for name in arrays}, arrays)


def test_a_damaged_file_is_an_error_that_names_it(build_dir, run, arrays, tmp_path):
    save_file(arrays, tmp_path / "theirs")
    whole = (tmp_path / "theirs").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    ended = run(build_dir / "bin" / "safetensors", "list", tmp_path / "cut")
    assert ended.returncode == 1
    assert str(tmp_path / "cut") in ended.stderr and "truncated" in ended.stderr
