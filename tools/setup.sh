#!/usr/bin/env bash
# Installs the packages for a part of the work. Skips installed ones, so every call but the first is quick. The output
# of apt and pip goes to build/setup.log, which is printed if they fail.
#
#   tools/setup.sh build        to build the libraries, the commands and the Python package
#   tools/setup.sh demo         build, and what `make demo` runs: PyTorch, LuaJIT, Fashion-MNIST
#   tools/setup.sh base         build, and what the tests of the core need
#   tools/setup.sh lint         base, the formatter, the linter, and clang for the sanitizers
#   tools/setup.sh frameworks   base, and PyTorch, JAX, Keras 3, PyTensor, transformers, accelerate and Lightning in .venv
#   tools/setup.sh theano       base, and the original Theano, Lasagne, Keras 2 and Keras 1 in .venv-theano
#   tools/setup.sh bench        frameworks: the benchmarks compare with PyTorch
#   tools/setup.sh fuzz         base, and clang with libFuzzer
#   tools/setup.sh slurm        base, and Slurm for a cluster of one machine, which a test starts itself
#   tools/setup.sh wheel        base, and what `make wheel` needs
#   tools/setup.sh types        pyright, for a test marked full
#   tools/setup.sh chroot       wheel, and build/debian12.tar: Debian 12 with Python and nothing else, in which tests install the wheel
#   tools/setup.sh docs         base, and what `make docs` needs: Sphinx and Doxygen
#   tools/setup.sh screenshots  base, and a browser that takes pictures of the documentation
#
# Several stages may be named in one call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  cmake ninja-build g++ make pkg-config ccache mold
  git python3-venv python3-dev
  openmpi-bin libopenmpi-dev
  libgtest-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libzmq3-dev cppzmq-dev libsodium-dev
  libdnnl-dev libopenblas-dev
  libprotobuf-dev protobuf-compiler
  liblmdb-dev libhdf5-dev libpng-dev libturbojpeg0-dev
)
demo_packages=(dataset-fashion-mnist luajit)
base_packages=(
  "${demo_packages[@]}" graphviz groff-base iproute2 libboost-test-dev zsh
  libluajit-5.1-dev lua5.1 liblua5.1-0-dev lua5.2 liblua5.2-dev lua5.3 liblua5.3-dev lua5.4 liblua5.4-dev luarocks
)
lint_packages=(clang-format-19 clang-tidy-19 clang-19 libclang-rt-19-dev libomp-19-dev)
fuzz_packages=(clang-19 libclang-rt-19-dev libomp-19-dev)
theano_packages=(libopenblas-dev)
slurm_packages=(slurmctld slurmd slurm-client munge)
chroot_packages=(mmdebstrap)
docs_packages=(doxygen)
screenshots_packages=(chromium fonts-dejavu-core)

build_tools=(cmake ninja g++ make pkg-config python3 mpirun mpicxx)
lint_tools=(clang-format-19 clang-tidy-19)

log=build/setup.log
say() { echo "setup: $*"; }
die() {
  echo "setup: $*" >&2
  exit 1
}

is_debian_12() {
  [ -r /etc/os-release ] && (
    . /etc/os-release
    [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]
  )
}

# Runs a command whose output goes to the log, and shows the end of the log if it fails.
quietly() {
  mkdir -p build
  echo "\$ $*" >>"$log"
  "$@" >>"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "this failed: $* (the whole output: $log)"
  }
}

missing_packages() {
  # One call for all packages takes as long as a call for one.
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
      sed -n 's/^\([^ :]*\)[^ ]* installed$/\1/p' | sort -u)
}

install_packages() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "these packages are missing, and there is neither root nor sudo to install them: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages and what they need"
  quietly "${as_root[@]}" apt-get -q update
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}"
}

# On other systems: prints Debian's names of the packages, and continues if the programs exist.
require_tools() {
  local tool missing=()
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    die "this is not Debian 12, and these programs are missing: ${missing[*]}
  install what Debian 12 calls: ${packages[*]}"
  fi
  [ -e "$1" ] && return
  say "this is not Debian 12; it needs the packages that Debian 12 calls: ${packages[*]}"
  say "their programs exist; continuing"
}

# Prints the first Python that can create an environment and for which the test (an expression of sys) is true.
find_python() { # arguments: test, its description
  local candidate
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit(not ($1))" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python of version $2 with the modules venv and ensurepip is found"
}

# Creates the environment unless it works already.
make_environment() { # arguments: folder, test of the Python, its description
  "$1"/bin/python -c '' 2>/dev/null && return
  local python
  python=$(find_python "$2" "$3")
  say "making $1 with $("$python" --version)"
  rm -rf "$1"
  quietly "$python" -m venv "$1"
}

# Runs install_NAME once for each content of the requirements file: a stamp in the environment holds its hash.
install_once() { # arguments: environment, name, requirements file
  local stamp
  stamp=$1/.setup-$2-$(sha256sum "$3" | cut -c1-16)
  [ -e "$stamp" ] && return
  say "installing Python packages ($2)"
  "install_$2" "$1/bin/python" "$3"
  rm -f "$1/.setup-$2"-*
  touch "$stamp"
}

# Without --no-compile, pip would compile every module of PyTorch, most of which are never imported.
quiet_pip() { # arguments: python, pip's arguments
  local python=$1
  shift
  quietly "$python" -m pip install --no-compile --disable-pip-version-check "$@"
}
install_build() { quiet_pip "$1" -r "$2"; }
install_torch() { quiet_pip "$1" -r "$2"; }
install_base() { quiet_pip "$1" -r "$2"; }
install_frameworks() { quiet_pip "$1" -r "$2"; }
install_wheel() { quiet_pip "$1" -r "$2"; }
install_docs() { quiet_pip "$1" -r "$2"; }
install_types() { quiet_pip "$1" -r "$2"; }
# The set-up scripts of the old packages need the old setuptools, and numpy, in the environment itself. Keras 1 is in a
# separate folder beside Keras 2: PYTHONPATH=.venv-theano/keras1 selects it.
install_theano() {
  quiet_pip "$1" wheel $(grep -E '^(numpy|setuptools)==' "$2")
  quiet_pip "$1" --no-build-isolation -r "$2"
  rm -rf .venv-theano/keras1
  quiet_pip "$1" --no-build-isolation --no-deps --target .venv-theano/keras1 Keras==1.2.2
}

[ $# -gt 0 ] || set -- base
packages=("${build_packages[@]}")
tools=("${build_tools[@]}")
base=no torch=no frameworks=no theano=no wheel=no chroot=no docs=no types=no
for stage in "$@"; do
  case $stage in
    build) continue ;;
    demo)
      torch=yes
      packages+=("${demo_packages[@]}")
      continue
      ;;
  esac
  # Every other stage contains the base.
  base=yes
  packages+=("${base_packages[@]}")
  case $stage in
    base) ;;
    lint)
      packages+=("${lint_packages[@]}")
      tools+=("${lint_tools[@]}")
      ;;
    frameworks | bench) frameworks=yes ;;
    theano)
      theano=yes
      packages+=("${theano_packages[@]}")
      ;;
    fuzz)
      packages+=("${fuzz_packages[@]}")
      tools+=(clang++-19)
      ;;
    slurm) packages+=("${slurm_packages[@]}") ;;
    wheel) wheel=yes ;;
    types) types=yes ;;
    chroot)
      wheel=yes chroot=yes
      packages+=("${chroot_packages[@]}")
      ;;
    docs)
      docs=yes
      packages+=("${docs_packages[@]}")
      tools+=(doxygen)
      ;;
    screenshots) packages+=("${screenshots_packages[@]}") ;;
    *) die "unknown stage \"$stage\"; known: build, demo, base, lint, frameworks, theano, bench, fuzz, slurm, wheel, chroot, docs, screenshots, types" ;;
  esac
done

if is_debian_12; then
  install_packages "${packages[@]}"
else
  require_tools .venv/bin/python
fi
make_environment .venv "sys.version_info >= (3, 11)" "3.11 or later"
install_once .venv build tools/requirements-build.txt
if [ $base = yes ]; then
  install_once .venv base tools/requirements.txt
fi
if [ $torch = yes ] || [ $frameworks = yes ]; then
  install_once .venv torch tools/requirements-torch.txt
fi
if [ $frameworks = yes ]; then
  install_once .venv frameworks tools/requirements-frameworks.txt
fi
if [ $types = yes ]; then
  install_once .venv types tools/requirements-types.txt
fi
if [ $wheel = yes ]; then
  install_once .venv wheel tools/requirements-wheel.txt
fi
if [ $docs = yes ]; then
  install_once .venv docs tools/requirements-docs.txt
fi
if [ $chroot = yes ] && [ ! -e build/debian12.tar ]; then
  [ "$(id -u)" -eq 0 ] || die "the stage chroot needs root"
  say "making build/debian12.tar"
  quietly mmdebstrap --variant=minbase --include=python3,python3-venv bookworm build/part-debian12.tar
  mv build/part-debian12.tar build/debian12.tar
fi
if [ $theano = yes ]; then
  make_environment .venv-theano "sys.version_info[:2] == (3, 11)" "3.11 (the original Theano runs on no later one)"
  install_once .venv-theano theano tools/requirements-theano.txt
  # Theano cannot find the BLAS library of this numpy. A configuration file names it, so that `import theano` works as
  # the first line of a script, and THEANO_FLAGS remains free for the script.
  printf '[blas]\nldflags = -lopenblas\n' > .venv-theano/theanorc
  echo 'import os, sys; os.environ.setdefault("THEANORC", os.path.join(sys.prefix, "theanorc") + os.pathsep + os.path.expanduser("~/.theanorc"))' \
    > .venv-theano/lib/python3.11/site-packages/theanorc.pth
fi
