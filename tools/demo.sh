#!/usr/bin/env bash
# make demo: sets up, builds the programs of the demo, and trains through every front door on Fashion-MNIST. Each part
# first prints
# its subject and its command, which can be copied.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
python=.venv/bin/python

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
part() { # subject, environment and command
  local word words=
  for word in "${@:2}"; do
    case $word in *[\;\?\ ]*) words+=" ${word%%=*}='${word#*=}'" ;; *) words+=" $word" ;; esac
  done
  printf '\n\033[1m%s\033[0m\n $%s\n' "$1" "$words"
  env "${@:2}"
}

mkdir -p build
first=no
[ -e $build/.demo ] || first=yes
[ $first = no ] || step "1 of 3: installing Debian packages, NumPy and PyTorch"
tools/setup.sh demo
[ $first = no ] || step "2 of 3: building the libraries and the Python package (several minutes)"
[ -f $build/build.ninja ] || cmake --preset release >build/configure.log 2>&1 ||
  { cat build/configure.log >&2; exit 1; }
if [ $first = yes ]; then
  cmake --build --preset release --target demo
  touch $build/.demo
else
  cmake --build --preset release --target demo >build/demo.log 2>&1 || { cat build/demo.log >&2; exit 1; }
fi
[ $first = no ] || step "3 of 3: training, six parts"

part "A table: four processes train softmax regression through one asynchronous matrix" \
  $build/bin/pleiad launch -n 4 $build/bin/fashion_softmax --out out
$python tools/plot_curve.py out/fashion_softmax.csv out/fashion_softmax.png --title "Softmax regression on Fashion-MNIST"
echo "The curve is in out/fashion_softmax.png"
part "A net: two processes train a CNN in C++" \
  $build/bin/pleiad launch -n 2 $build/bin/fashion_cnn 300
part "PyTorch: a script with three more lines trains on two processes" \
  PYTHONPATH=$build/python $build/bin/pleiad launch -n 2 $python examples/torch/cnn.py --samples 12000 --epochs 1
part "Lua: XOR, as Multiverso's document for Torch has it" \
  "LUA_PATH=$build/lua/?.lua;$build/lua/?/init.lua" $build/bin/pleiad launch -n 2 luajit examples/lua/xor.lua
part "SINGA: a script in the style of Keras, on two workers" \
  PYTHONPATH=$build/python $build/bin/pleiad launch -n 2 $python examples/demo/singa_mlp.py
part "A split image: neon's experiment spreads each image over four processes" \
  PYTHONPATH=$build/python $build/bin/pleiad launch -n 4 $python -m neon examples/demo/neon_cnn.yaml
