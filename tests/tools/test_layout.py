"""tools/check_layout.py finds every kind of problem, and finds none in this repository."""

import subprocess
import sys

import pytest
from conftest import ROOT

WIDE = "".join(f"  int f{i}() const {{ return {i}; }}\n" for i in range(21))


@pytest.fixture
def check(tmp_path):
    """check({path: text}) returns the exit code and the problems of a tree of these files."""

    def call(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = subprocess.run(
            [sys.executable, ROOT / "tools" / "check_layout.py", tmp_path], capture_output=True, text=True, timeout=600
        )
        return result.returncode, result.stderr.splitlines()

    return call


def test_this_repository_is_in_order():
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "check_layout.py"], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[1]) > 10, "it looked at files"


def test_a_good_tree_passes(check):
    good = {
        "include/pleiad/dtype.h": '#include <cstdint>\n#include "pleiad/error.h"\n',
        "include/pleiad/error.h": "",
        "src/core/text.cc": '#include "core/text.h"\n#include "text.h"\n#include "pleiad/error.h"\n',
        "src/table/array.cc": '#include "engine/engine.h"\n#include "table/array.h"\n',
        "cli/main.cc": '#include "capi/anything.h"\n' + "\n" * 399,
        "docs/image.png": bytes(range(256)),
        "docs/long.md": "line\n" * 1000,
        "README.md": "see docs/home/page.md, https://example.com/home/page and ./work/here\n",
    }
    assert check(good) == (0, [])


@pytest.mark.parametrize(
    "path, text, complaint",
    [
        ("src/engine/a.cc", '\n#include "table/b.h"\n', 'src/engine/a.cc:2: engine may not include "table/b.h"'),
        ("src/core/a.h", '#  include "core/b.h"\n#include "engine/b.h"\n', "src/core/a.h:2: core may not include"),
        ("src/core/a.h", '#include "cli/b.h"\n', 'src/core/a.h:1: "cli/b.h" is neither in include/ nor'),
        ("src/new/a.cc", "\n", "src/new/a.cc:1: unknown folder of src/"),
        ("src/a.cc", "\n", "src/a.cc:1: unknown folder of src/"),
        (
            "include/pleiad/a.h",
            '#include "core/text.h"\n',
            'include/pleiad/a.h:1: a public header includes "core/text.h"',
        ),
        ("src/core/long.cc", "\n" * 401, "src/core/long.cc:401: 401 lines; at most 400 are allowed"),
        ("bindings/python/long.py", "\n" * 401, "bindings/python/long.py:401: 401 lines; at most 400 are allowed"),
        ("src/CMakeLists.txt", "\n" * 601, "src/CMakeLists.txt:601: 601 lines; at most 600 are allowed"),
        (
            "include/pleiad/a.h",
            f"\nclass A {{\n public:\n{WIDE}}};\n",
            "include/pleiad/a.h:2: class A has 21 public functions",
        ),
        ("src/core/a.cc", f"struct A {{\n{WIDE}}};\n", "src/core/a.cc:1: class A has 21 public functions; at most 20"),
        ("tests/test_long.py", "\n" * 700, "tests/test_long.py:601: 700 lines"),
        ("docs/a.md", "x\nhttps://py" + "pi.org/simple\n", "docs/a.md:2: names the host of a package registry"),
        ("tools/a.sh", "http://deb." + "debian.org/\n", "tools/a.sh:1: names the host of a package registry"),
        ("a.txt", "data in " + "/ho" + "me/me/data\n", "a.txt:1: names a path of somebody's machine"),
        ("Makefile", "all:\n\tcp '" + "/wo" + "rk/x' .\n", "Makefile:2: names a path of somebody's machine"),
    ],
)
def test_a_bad_tree_fails(check, path, text, complaint):
    code, complaints = check({path: text})
    assert code == 1
    assert len(complaints) == 1
    assert complaints[0].startswith(complaint)


PATHS = """# Paths
## An add
![it](images/path_add.svg)

1. `Table::add` in [src/table/a.cc](../src/table/a.cc): starts.
2. `Shard::apply` in [src/table/b.cc](../src/table/b.cc): ends.
"""
CALLER, CALLED = "void Table::add() { shard.apply(1); }\n", "void Shard::apply(int) {}\n"


@pytest.mark.parametrize(
    "caller, called, complaint",
    [
        (CALLER, "void Shard::run(int) {}\n", "Shard::apply: src/table/b.cc has no function of this name"),
        (CALLER, None, "Shard::apply: there is no file src/table/b.cc"),
        ("void Table::add() {}\n", CALLED, "Shard::apply: no file of this path calls it"),
        (CALLER, CALLED, "docs/images/path_add.svg: differs from docs/architecture.md; run tools/draw_paths.py"),
    ],
)
def test_the_paths_of_data_follow_the_code(check, caller, called, complaint):
    files = {"docs/architecture.md": PATHS, "src/table/a.cc": caller}
    if called is not None:
        files["src/table/b.cc"] = called
    code, problems = check(files)
    assert code == 1
    assert any(complaint in problem for problem in problems), problems
    if called == CALLED and caller == CALLER:
        assert len(problems) == 1
        drawn = "<svg>1. Table::add 2. Shard::apply</svg>"
        assert check({**files, "docs/images/path_add.svg": drawn}) == (0, [])


COUNTED = """
/// A class.
class [[nodiscard]] PLEIAD_API A final : public Base {
  int hidden();
 public:
  enum class Mode { on, off };
  explicit A(int x) : x_{x} {}
  ~A();
  A(const A&) = delete;
  bool operator==(const A&) const;
  void prepare(const Shapes& in) override { ready_ = true; }
  [[nodiscard]] static std::vector<std::pair<int, int>> all(int x = 3, const char* text = "a;{(");
  template <class T>
  void each(T&& call) const {
    for (int i = 0; i < x_; ++i) call(i);
  }
  int x() const { return x_; }  // int y();
  struct Inner {
    std::function<void(int)> call = [](int) {};
    int size = 0;
    int sum() const;
  };
 protected:
  void also_hidden();
 private:
  int x_ = f(3);
};
class B;
enum class Color { red };
"""


def test_public_functions_are_counted():
    sys.path.insert(0, str(ROOT / "tools"))
    from count_functions import public_functions

    assert public_functions(COUNTED) == [(3, "A", 3), (18, "Inner", 1)]
