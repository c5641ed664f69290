#!/bin/sh
# A learner that is taught digits from pictures in seconds; then three methods on a stream of the same digits, their
# comparison, and pages to look at.
# Usage: sh examples/demo.sh [SPARCL_COMMAND]
set -eu
sparcl=${1:-sparcl}
shop=runs/demo-learner photos=runs/demo-photos
rm -rf "$shop" "$photos"

echo "A learner with a backbone is shown twenty pictures of each digit, first five classes, then the others:"
mkdir -p runs
"$sparcl" data export digits "$photos" > /dev/null
for digit in 0 1 2 3 4 5 6 7 8 9; do
    mkdir -p "$photos/shown/$digit"
    for picture in $(ls "$photos/train/$digit" | head -20); do
        cp "$photos/train/$digit/$picture" "$photos/shown/$digit"
    done
done
"$sparcl" new "$shop"
"$sparcl" learn "$shop" "$photos"/shown/[0-4]
"$sparcl" learn "$shop" "$photos"/shown/[5-9]
"$sparcl" predict "$shop" "$photos/test/3/00003.png" "$photos/test/7/00007.png"
"$sparcl" report "$shop" --out runs/demo-learner.html

echo
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
echo "SparCL trains a tenth of the weights, and on a stream of only a few hundred steps it ends behind the dense methods;"
echo "docs/results.md has longer ones."
"$sparcl" compare "$dense" "$sparse" "$er"
"$sparcl" report "$dense" "$sparse" "$er" --out runs/demo-report.html
echo "Open it in a browser; while a run goes on, \`sparcl watch runs\` shows the same page live."
