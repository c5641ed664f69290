"""Networks that everyone knows, as ordinary torch modules: structure, names and defaults as their publishers have them.

MobileNetV2, ResNet, VGG and SqueezeNet follow torchvision, EfficientNet-Lite follows timm. `width` is the number of
channels of the first layer; the published networks have the default.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def multiple_of_8(channels):
    """Near to it, and never a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


# ------------------------------------------------------------------------------------------------------- MobileNetV2


def conv_norm_relu6(into, out, kernel=3, stride=1, groups=1):
    conv = nn.Conv2d(into, out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, into, out, stride, expansion):
        super().__init__()
        hidden = into * expansion
        expand = [conv_norm_relu6(into, hidden, kernel=1)] if expansion != 1 else []
        depthwise = conv_norm_relu6(hidden, hidden, stride=stride, groups=hidden)
        self.conv = nn.Sequential(*expand, depthwise, nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out))
        self.use_res_connect = stride == 1 and into == out

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    # expansion, channels, how many, stride of the first
    SETTINGS = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, classes=1000, width=32, dropout=0.2):
        super().__init__()
        factor = width / 32
        into, last = multiple_of_8(32 * factor), multiple_of_8(1280 * max(1.0, factor))
        features = [conv_norm_relu6(3, into, stride=2)]
        for expansion, channels, count, stride in self.SETTINGS:
            for block in range(count):
                out = multiple_of_8(channels * factor)
                features.append(InvertedResidual(into, out, 1 if block else stride, expansion))
                into = out
        self.features = nn.Sequential(*features, conv_norm_relu6(into, last, kernel=1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


# -------------------------------------------------------------------------------------------------- EfficientNet-Lite0


def lite_norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class SameConv2d(nn.Sequential):
    """A convolution that is padded as TensorFlow does it: as little as possible, and more behind than before."""

    def __init__(self, into, out, kernel, stride, groups, size):
        needed = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        before, after = needed // 2, needed - needed // 2
        conv = nn.Conv2d(into, out, kernel, stride, groups=groups, bias=False)
        super().__init__(nn.ZeroPad2d((before, after, before, after)), conv)


class DepthwiseSeparable(nn.Module):
    """The block without expansion."""

    def __init__(self, window, into, out, kernel, stride, size):
        super().__init__()
        self.residual = stride == 1 and into == out
        self.conv_dw, self.bn1 = window(into, into, kernel, stride, into, size), lite_norm(into)
        self.conv_pw, self.bn2 = nn.Conv2d(into, out, 1, bias=False), lite_norm(out)
        self.act = nn.ReLU6(inplace=True)

    def forward(self, x):
        out = self.bn2(self.conv_pw(self.act(self.bn1(self.conv_dw(x)))))
        return out + x if self.residual else out


class InvertedBottleneck(nn.Module):
    """Without squeeze-and-excitation, which the Lite networks do without."""

    def __init__(self, window, into, out, kernel, stride, size, expansion):
        super().__init__()
        hidden = into * expansion
        self.residual = stride == 1 and into == out
        self.conv_pw, self.bn1 = nn.Conv2d(into, hidden, 1, bias=False), lite_norm(hidden)
        self.conv_dw, self.bn2 = window(hidden, hidden, kernel, stride, hidden, size), lite_norm(hidden)
        self.conv_pwl, self.bn3 = nn.Conv2d(hidden, out, 1, bias=False), lite_norm(out)
        self.act = nn.ReLU6(inplace=True)

    def forward(self, x):
        out = self.act(self.bn1(self.conv_pw(x)))
        out = self.act(self.bn2(self.conv_dw(out)))
        out = self.bn3(self.conv_pwl(out))
        return out + x if self.residual else out


class EfficientNetLite0(nn.Module):
    """`same`: padded as in TensorFlow, for square images of `size` pixels a side; else by half of the kernel."""

    # expansion, channels, how many, stride of the first, kernel
    SETTINGS = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )

    def __init__(self, classes=1000, width=32, dropout=0.2, size=224, same=False):
        super().__init__()

        def window(into, out, kernel, stride, groups, size):
            if same:
                return SameConv2d(into, out, kernel, stride, groups, size)
            return nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)

        factor = width / 32
        self.conv_stem, self.bn1 = window(3, width, 3, 2, 1, size), lite_norm(width)
        self.act = nn.ReLU6(inplace=True)
        size, into, stages = math.ceil(size / 2), width, []
        for expansion, channels, count, first_stride, kernel in self.SETTINGS:
            blocks = []
            for block in range(count):
                out, stride = multiple_of_8(channels * factor), 1 if block else first_stride
                if expansion == 1:
                    blocks.append(DepthwiseSeparable(window, into, out, kernel, stride, size))
                else:
                    blocks.append(InvertedBottleneck(window, into, out, kernel, stride, size, expansion))
                into, size = out, math.ceil(size / stride)
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        last = multiple_of_8(1280 * factor)
        self.conv_head, self.bn2 = nn.Conv2d(into, last, 1, bias=False), lite_norm(last)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.dropout, self.classifier = nn.Dropout(dropout), nn.Linear(last, classes)

    def forward(self, x):
        x = self.blocks(self.act(self.bn1(self.conv_stem(x))))
        x = self.act(self.bn2(self.conv_head(x)))
        return self.classifier(self.dropout(self.global_pool(x).flatten(1)))


# ----------------------------------------------------------------------------------------------------------- ResNets


class BasicBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, blocks, classes=1000, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        into = width
        for stage, count in enumerate(blocks):
            out, stride = width << stage, 2 if stage else 1
            others = [BasicBlock(out, out, 1) for _ in range(count - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(BasicBlock(into, out, stride), *others))
            into = out
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(into, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(**options):
    return ResNet((2, 2, 2, 2), **options)


def resnet34(**options):
    return ResNet((3, 4, 6, 3), **options)


# ----------------------------------------------------------------------------------------------- VGG-11 and SqueezeNet


class Vgg11Bn(nn.Module):
    """Its images have 224 pixels a side, or a multiple of that: what is pooled to 7x7 must be divisible by 7."""

    SETTINGS = (1, "pool", 2, "pool", 4, 4, "pool", 8, 8, "pool", 8, 8, "pool")

    def __init__(self, classes=1000, width=64, hidden=4096, dropout=0.5):
        super().__init__()
        layers, into = [], 3
        for setting in self.SETTINGS:
            if setting == "pool":
                layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            else:
                out = setting * width
                layers += [nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
                into = out
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(into * 7 * 7, hidden),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Fire(nn.Module):
    def __init__(self, into, squeeze, expand):
        super().__init__()
        self.squeeze, self.squeeze_activation = nn.Conv2d(into, squeeze, 1), nn.ReLU(inplace=True)
        self.expand1x1, self.expand1x1_activation = nn.Conv2d(squeeze, expand, 1), nn.ReLU(inplace=True)
        self.expand3x3, self.expand3x3_activation = nn.Conv2d(squeeze, expand, 3, padding=1), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet11(nn.Module):
    """No batch normalisation; the classifier is a convolution, whose maps are averaged."""

    # Squeezed and expanded channels, of 64 in the first layer; a pooling comes before each stage.
    STAGES = (2 * [(16, 64)], 2 * [(32, 128)], 2 * [(48, 192)] + 2 * [(64, 256)])

    def __init__(self, classes=1000, width=64, dropout=0.5):
        super().__init__()
        layers, into = [nn.Conv2d(3, width, kernel_size=3, stride=2), nn.ReLU(inplace=True)], width
        for stage in self.STAGES:
            layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
            for setting in stage:
                squeeze, expand = (channels * width // 64 for channels in setting)
                layers.append(Fire(into, squeeze, expand))
                into = 2 * expand
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Conv2d(into, classes, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)
