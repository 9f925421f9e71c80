"""Layers. Each says what it is to the engine (`engine_layers`), and computes in NumPy too (`fprop`, `bprop`), so that a
layer of yours can derive from it. Images are (batch, height, width, channels).

The suffix Dist is not needed for neon's own layers. A layer of yours with the suffix works on tiles: its `input` has the
views with halos (docs/neon.md).
"""

from neon.layers.base import Layer, WeightLayer
from neon.layers.conv import ConvLayer, ConvLayerDist
from neon.layers.dense import (
    AELayer,
    BiasedLayer,
    FCLayer,
    FCLayerDist,
    LayerDist,
    LayerWithNoBias,
    LayerWithNoBiasDist,
    RBMLayer,
)
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
    "AELayer",
    "ActivationLayer",
    "AveragePoolingLayer",
    "AveragePoolingLayerDist",
    "BiasedLayer",
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
    "LayerWithNoBias",
    "LayerWithNoBiasDist",
    "LocalContrastNormLayer",
    "LocalContrastNormLayerDist",
    "LocalFilteringLayer",
    "LocalFilteringLayerDist",
    "MaxPoolingLayer",
    "MaxPoolingLayerDist",
    "PoolingLayer",
    "PoolingLayerDist",
    "RBMLayer",
    "WeightLayer",
]
