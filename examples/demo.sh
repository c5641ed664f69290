#!/bin/sh
# Two methods on the embedded digits, five tasks of two classes each, and their comparison.
# Usage: sh examples/demo.sh [SPARCL_COMMAND]
set -eu
sparcl=${1:-sparcl}
runs=runs/demo
rm -rf "$runs"

echo "Dark Experience Replay++ learns the digits, two at a time:"
"$sparcl" run digits/derpp --out "$runs/derpp" --quiet
echo "Experience Replay does the same:"
"$sparcl" run digits/er --out "$runs/er" --quiet
echo "And plain gradient descent, which remembers only the last two digits:"
"$sparcl" run digits/sgd --out "$runs/sgd" --quiet

echo
"$sparcl" compare "$runs/derpp" "$runs/er" "$runs/sgd"
