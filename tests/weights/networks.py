"""State dicts with the names of other libraries, written down here: none of them is installed."""

import torch
from torch import nn


class BasicBlock(nn.Module):
    """As in torchvision's ResNet, in names and order."""

    def __init__(self, into, out, stride, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        projection = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        setattr(self, shortcut, projection if stride > 1 else nn.Sequential())
        self.shortcut_name = shortcut

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + getattr(self, self.shortcut_name)(x))


class ResNet18(nn.Module):
    """For small images, with the names of torchvision and timm (or of networks for small images)."""

    def __init__(self, width=4, classes=10, channels=3, shortcut="downsample", classifier="fc"):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        into = width
        for stage in range(4):
            out, stride = width << stage, 2 if stage else 1
            blocks = [BasicBlock(into, out, stride, shortcut), BasicBlock(out, out, 1, shortcut)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            into = out
        self.classifier_name = classifier
        setattr(self, classifier, nn.Linear(into, classes))

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return getattr(self, self.classifier_name)(x.mean((2, 3)))


def trained(network, seed=0):
    """With statistics and scales of its own, so that no mistake goes unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + 0.1)
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.sub_(0.35).mul_(parameter[0].numel() ** -0.5)
    return network.eval()
