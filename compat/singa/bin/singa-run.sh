#!/usr/bin/env bash
# Runs a job on this process. Under mpirun, or `pleiad launch -n 4`, each rank runs this script and is a worker.
#
#   bin/singa-run.sh -conf examples/mnist/job.conf [-resume] [-test]
#   bin/singa-run.sh -exec tool/python/examples/mnist_mlp.py [-resume] [the script's own arguments]
#   bin/singa-run.sh -exec build/my_main -conf examples/mnist/job.conf [-resume]
#
# -exec starts a Python script with Python, and any other program directly.
# -singa_conf and -singa_job are accepted for older scripts, and ignored.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage() {
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

conf= script= flags=() rest=()
while [ $# -gt 0 ]; do
  case $1 in
    -conf | -exec | -singa_conf | -singa_job)
      [ $# -gt 1 ] || { echo "singa-run.sh: $1: expected a value after it" >&2; usage; }
      case $1 in
        -conf) conf=$2 ;;
        -exec) script=$2 ;;
      esac
      shift 2
      ;;
    -resume | -test)
      flags+=("$1")
      shift
      ;;
    *)
      [ -n "$script" ] || { echo "singa-run.sh: unknown option \"$1\"" >&2; usage; }
      rest+=("$1")
      shift
      ;;
  esac
done
[ -n "$conf$script" ] || usage

build=${PLEIAD_BUILD:-$root/../../build/release}
missing() {
  echo "singa-run.sh: $1: ./configure --enable-python && make in $root builds it" >&2
  exit 1
}
# Succeeds if -exec names a program that starts by itself: an executable that is not a Python script.
starts_itself() {
  case $1 in *.py) return 1 ;; esac
  [ -f "$1" ] && [ -x "$1" ] || return 1
  case $(head -c 64 "$1" | head -n 1 | tr -d '\0') in '#!'*python*) return 1 ;; esac
}
if [ -n "$script" ] && starts_itself "$script"; then
  case $script in */*) ;; *) script=./$script ;; esac
  exec "$script" ${conf:+-conf "$conf"} "${flags[@]}" "${rest[@]}"
fi
if [ -n "$script" ]; then
  [ -f "$script" ] || { echo "singa-run.sh: -exec $script: no such file" >&2; exit 1; }
  python=${PYTHON:-}
  [ -n "$python" ] || python=$([ -x "$root/../../.venv/bin/python" ] && echo "$root/../../.venv/bin/python" || echo python3)
  if [ -d "$build/python" ]; then
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
  else
    "$python" -c 'import pleiad' 2>/dev/null || missing "there is no $build/python, and $python has no package pleiad"
  fi
  export PYTHONPATH=$root/tool/python${PYTHONPATH:+:$PYTHONPATH}
  exec "$python" "$script" ${conf:+-conf "$conf"} "${flags[@]}" "${rest[@]}"
fi
pleiad=$build/bin/pleiad
[ -x "$pleiad" ] || pleiad=$(command -v pleiad) || missing "there is no $build/bin/pleiad, and none on the PATH"

# For each missing file that a job of this root names, prints the script that creates it.
makers() {
  { grep -oE '(path|mean_file): *"[^"]*"' "$conf" 2>/dev/null || true; } | cut -d '"' -f 2 | while read -r file; do
    [ ! -e "$file" ] || continue
    case $file in
      examples/mnist/*.bin) echo tool/python/examples/datasets/mnist.py ;;
      examples/cifar10/*.bin) echo tool/python/examples/datasets/cifar10.py ;;
      examples/char-rnn/*.txt) echo tool/python/examples/char_rnn_text.py ;;
      examples/rbm/rbm[1-4]/checkpoint/*) echo "tool/python/examples/mnist_$(cut -d / -f 3 <<<"$file").py" ;;
    esac
  done | sort -u
}
if [ "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}" = 0 ]; then
  makers | sed 's|^|singa-run.sh: files of this job are not there: bin/singa-run.sh -exec |; s|$| makes them|' >&2
fi
exec "$pleiad" run "$conf" "${flags[@]}"
