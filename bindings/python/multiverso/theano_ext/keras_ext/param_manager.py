"""The parameter manager of Keras models, under the name that Multiverso has."""

from multiverso.theano_ext.param_manager import KerasParamManager

__all__ = ["KerasParamManager"]
