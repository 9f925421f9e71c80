#!/usr/bin/env bash
# Installs what a part of the work needs. What is there already is left alone, so every call but the first is quick.
#
#   tools/setup.sh base    to build, to test and to run the demo
#   tools/setup.sh lint    base, and the formatter and linter
#   tools/setup.sh bench   base, and PyTorch, which the benchmarks compare with
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base_packages=(
  cmake ninja-build g++ make pkg-config
  git python3-venv python3-dev
  openmpi-bin libopenmpi-dev
  libgtest-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libdnnl-dev libopenblas-dev
  dataset-fashion-mnist
  luajit libluajit-5.1-dev lua5.1 liblua5.1-0-dev lua5.2 liblua5.2-dev lua5.3 liblua5.3-dev lua5.4 liblua5.4-dev luarocks
)
lint_packages=(clang-format-19 clang-tidy-19)
# This exact version: others bring gigabytes of GPU libraries, or are measured differently.
bench_requirements="torch==2.13.0"

base_tools=(cmake ninja g++ make pkg-config python3 mpirun mpicxx)
lint_tools=(clang-format-19 clang-tidy-19)

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

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
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
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get -q update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}"
}

# On other systems: names what Debian calls the packages, and goes on where the programs are there.
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
  say "this is not Debian 12; needed is what Debian 12 calls: ${packages[*]}"
  say "the programs among them are found; going on"
}

# The first Python of at least 3.11 that can make an environment.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python of version 3.11 or later with the modules venv and ensurepip is found"
}

# Installs into .venv what pip's arguments ask for, once: a stamp in it remembers their hash.
install_python() { # name, text that the hash is made of, pip's arguments
  local name=$1 hash stamp
  hash=$(printf '%s' "$2" | sha256sum | cut -c1-16)
  stamp=.venv/.setup-$name-$hash
  shift 2
  if ! .venv/bin/python -c '' 2>/dev/null; then
    local python
    python=$(find_python)
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  [ -e "$stamp" ] && return
  say "installing Python packages ($name)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
  rm -f .venv/.setup-"$name"-*
  touch "$stamp"
}

stage=${1:-base}
packages=("${base_packages[@]}")
tools=("${base_tools[@]}")
case $stage in
  base | bench) ;;
  lint)
    packages+=("${lint_packages[@]}")
    tools+=("${lint_tools[@]}")
    ;;
  *) die "unknown stage \"$stage\"; known: base, lint, bench" ;;
esac

if is_debian_12; then
  install_packages "${packages[@]}"
else
  require_tools .venv/bin/python
fi
install_python base "$(cat tools/requirements.txt)" -r tools/requirements.txt
if [ "$stage" = bench ]; then
  install_python bench "$bench_requirements" "$bench_requirements"
fi
