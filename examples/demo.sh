#!/bin/sh
# Three methods on the embedded digits, five tasks of two classes each, and their comparison.
# Usage: sh examples/demo.sh [SPARCL_COMMAND]
set -eu
sparcl=${1:-sparcl}
runs=runs
rm -rf "$runs/demo-derpp" "$runs/demo-er" "$runs/demo-sgd"

echo "Dark Experience Replay++ learns the digits, two at a time:"
"$sparcl" run digits/derpp --out "$runs/demo-derpp" --quiet
echo "Experience Replay does the same:"
"$sparcl" run digits/er --out "$runs/demo-er" --quiet
echo "And plain gradient descent, which remembers only the last two digits:"
"$sparcl" run digits/sgd --out "$runs/demo-sgd" --quiet

echo
"$sparcl" compare "$runs/demo-derpp" "$runs/demo-er" "$runs/demo-sgd"
