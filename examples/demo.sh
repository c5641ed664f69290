#!/bin/sh
# Three learners on the embedded digits, five tasks of two classes each; their comparison, and a page to look at.
# Usage: sh examples/demo.sh [SPARCL_COMMAND]
set -eu
sparcl=${1:-sparcl}
dense=runs/demo-derpp sparse=runs/demo-sparcl-derpp-90 er=runs/demo-er
rm -rf "$dense" "$sparse" "$er"
# After so few steps a single evaluation swings by tens of points: means of several, with batch statistics measured anew.
smooth="--set evaluation.snapshots=12 --set evaluation.bn_recalibration=true"

echo "Dark Experience Replay++ learns the digits, two at a time:"
"$sparcl" run digits/derpp $smooth --out "$dense" --quiet
echo "SparCL around it does the same with one weight in ten:"
"$sparcl" run digits/sparcl-derpp-90 $smooth --out "$sparse" --quiet
echo "And Experience Replay, dense:"
"$sparcl" run digits/er $smooth --out "$er" --quiet

echo
"$sparcl" compare "$dense" "$sparse" "$er"
"$sparcl" report "$dense" "$sparse" "$er" --out runs/demo-report.html
echo "Open it in a browser; while a run goes on, \`sparcl watch runs\` shows the same page live."
