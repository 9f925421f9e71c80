"""Layers. Each says what it is to the engine (`engine_layers`), and computes in NumPy too (`fprop`, `bprop`), so that a
layer of yours can derive from it. Images are (batch, height, width, channels).

The Dist suffix is honoured and not needed: a Dist layer gets its halos by itself, through its `input`, a GlobalArray that
the model's adjust_for_dist() makes.
"""

from neon.layers.base import Layer, WeightLayer
from neon.layers.conv import ConvLayer, ConvLayerDist
from neon.layers.dense import FCLayer, FCLayerDist, LayerDist
from neon.layers.local import (
    CrossMapResponseNormLayer,
    LCNLayer,
    LCNLayerDist,
    LocalContrastNormLayer,
    LocalContrastNormLayerDist,
    LocalFilteringLayer,
    LocalFilteringLayerDist,
)
from neon.layers.pooling import (
    AveragePoolingLayer,
    AveragePoolingLayerDist,
    L2PoolingLayer,
    L2PoolingLayerDist,
    MaxPoolingLayer,
    MaxPoolingLayerDist,
    PoolingLayer,
    PoolingLayerDist,
)
from neon.layers.simple import ActivationLayer, CostLayer, DataLayer, DropOutLayer, ImageDataLayer

__all__ = [
    "ActivationLayer",
    "AveragePoolingLayer",
    "AveragePoolingLayerDist",
    "ConvLayer",
    "ConvLayerDist",
    "CostLayer",
    "CrossMapResponseNormLayer",
    "DataLayer",
    "DropOutLayer",
    "FCLayer",
    "FCLayerDist",
    "ImageDataLayer",
    "L2PoolingLayer",
    "L2PoolingLayerDist",
    "LCNLayer",
    "LCNLayerDist",
    "Layer",
    "LayerDist",
    "LocalContrastNormLayer",
    "LocalContrastNormLayerDist",
    "LocalFilteringLayer",
    "LocalFilteringLayerDist",
    "MaxPoolingLayer",
    "MaxPoolingLayerDist",
    "PoolingLayer",
    "PoolingLayerDist",
    "WeightLayer",
]
