"""The headers of Multiverso's C++ API: each compiles by itself, and a program that uses all of them works on 1, 2 and 4 ranks."""

import subprocess

import pytest
from conftest import ROOT, run_with_deadline

INCLUDE = ROOT / "include"
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in (INCLUDE / "multiverso").rglob("*.h"))
COMPILER = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{INCLUDE}"]


def compile(*words):
    return subprocess.run([*COMPILER, *map(str, words)], capture_output=True, text=True, timeout=600)


def test_the_headers_that_programs_include_are_there():
    for name in ("net", "util/net_util", "util/timer", "dashboard", "blob", "message", "node", "table_factory",
                 "table/kv_table", "table/matrix", "table/matrix_table", "table/sparse_matrix_table"):  # fmt: skip
        assert f"multiverso/{name}.h" in HEADERS


def test_every_header_compiles_by_itself(tmp_path):
    for header in HEADERS:
        file = tmp_path / "one.cc"
        file.write_text(f"#include <{header}>\n#include <{header}>\n")
        done = compile("-fsyntax-only", file)
        assert done.returncode == 0, f"{header}\n{done.stderr}"


@pytest.fixture(scope="module")
def program(build_dir, tmp_path_factory):
    file = tmp_path_factory.mktemp("mv_tables") / "mv_tables"
    lib = build_dir / "lib"
    source = ROOT / "tests" / "outside" / "mv_tables.cc"
    done = compile(source, "-o", file, f"-L{lib}", f"-Wl,-rpath,{lib}", "-lmultiverso", "-lpleiad")
    assert done.returncode == 0, done.stderr
    return file


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_program_with_every_table_works(pleiad, program, ranks):
    done = run_with_deadline([pleiad, "launch", "-n", str(ranks), program], timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fine"] * ranks


@pytest.mark.parametrize(
    "body, error",
    [
        ("net->Send(message);", "use of deleted function"),
        ("net->Init(nullptr, nullptr);", "use of deleted function"),
        ("KVWorkerTable<int, short> table;", "the values of a KVTable are"),
        ("KVWorkerTable<float, int> table;", "the keys of a KVTable are integers"),
    ],
)
def test_what_is_not_here_does_not_compile(tmp_path, body, error):
    file = tmp_path / "wrong.cc"
    file.write_text(
        "#include <multiverso/net.h>\n#include <multiverso/table/kv_table.h>\nusing namespace multiverso;\n"
        "int main() { NetInterface* net = NetInterface::Get(); MessagePtr message; (void)net; " + body + " }\n"
    )
    done = compile("-fsyntax-only", file)
    assert done.returncode != 0 and error in done.stderr, done.stderr
