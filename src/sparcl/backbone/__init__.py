"""Backbones: networks that already know how to see. One is part of the package, others are imported by their users."""

from sparcl.backbone.backbone import Backbone
from sparcl.backbone.file import IMAGENET_MEAN, IMAGENET_STD, save_backbone
from sparcl.backbone.store import (
    DEFAULT_BACKBONE,
    DamagedBackbone,
    backbone_directory,
    find_backbone,
    list_backbones,
    remove_backbone,
)

__all__ = [
    "DEFAULT_BACKBONE",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Backbone",
    "DamagedBackbone",
    "backbone_directory",
    "find_backbone",
    "list_backbones",
    "remove_backbone",
    "save_backbone",
]
