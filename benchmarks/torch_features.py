"""Features of photos computed by PyTorch: an independent reference for those of the package's backbone.

python benchmarks/torch_features.py LIST OUT

LIST names one photo a line; OUT becomes an .npz with `features` [photos, 2, 1280], of each photo and its mirror image.
It runs in a process of its own, because PyTorch is foreign code. The network is written out here once more, from the
paper (Sandler et al., 2018); weights, picture size and pixel scale are those of the package.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.numpy import load_file
from torch.nn import functional

from sparcl.backbone import DEFAULT_BACKBONE, find_backbone

TOGETHER = 16
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2:
    def __init__(self, path: Path) -> None:
        self.tensors = {name: torch.from_numpy(array).float() for name, array in load_file(path).items()}

    def layer(self, x: torch.Tensor, conv: str, norm: str, stride: int = 1, active: bool = True) -> torch.Tensor:
        weight = self.tensors[f"{conv}.weight"]
        groups = x.shape[1] // weight.shape[1]
        x = functional.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2, groups=groups)
        mean, variance = self.tensors[f"{norm}.running_mean"], self.tensors[f"{norm}.running_var"]
        x = functional.batch_norm(x, mean, variance, self.tensors[f"{norm}.weight"], self.tensors[f"{norm}.bias"])
        return functional.relu6(x) if active else x

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x, "features.0.0", "features.0.1", 2)
        number = 1
        for expansion, channels, count, first in BLOCKS:
            for block in range(count):
                stride, name, source = first if block == 0 else 1, f"features.{number}.conv", x
                at = 0
                if expansion > 1:
                    x, at = self.layer(x, f"{name}.0.0", f"{name}.0.1"), 1
                x = self.layer(x, f"{name}.{at}.0", f"{name}.{at}.1", stride)
                x = self.layer(x, f"{name}.{at + 1}", f"{name}.{at + 2}", active=False)
                if stride == 1 and source.shape[1] == channels:
                    x = x + source
                number += 1
        return self.layer(x, f"features.{number}.0", f"features.{number}.1").mean((2, 3))


def main() -> None:
    listed, out = Path(sys.argv[1]), Path(sys.argv[2])
    backbone = find_backbone(DEFAULT_BACKBONE)
    network, side = MobileNetV2(backbone.path), backbone.size
    mean, std = (torch.tensor(values).float().view(3, 1, 1) for values in (backbone.mean, backbone.std))
    names, found = listed.read_text().splitlines(), []

    def pixels(name: str) -> torch.Tensor:
        with Image.open(name) as picture:
            square = ImageOps.fit(picture.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
        return (torch.from_numpy(np.array(square)).permute(2, 0, 1).float() / 255 - mean) / std

    torch.set_num_threads(1)  # several would wait for one another on a busy machine
    with torch.inference_mode():
        for first in range(0, len(names), TOGETHER):
            some = torch.stack([pixels(name) for name in names[first : first + TOGETHER]])
            found.append(torch.stack([network(some), network(some.flip(3))], dim=1).double().numpy())
    np.savez(out, features=np.concatenate(found))


if __name__ == "__main__":
    main()
