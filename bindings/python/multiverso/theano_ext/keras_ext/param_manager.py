"""The manager of a Keras model's parameters, where Multiverso has it."""

from multiverso.theano_ext.param_manager import KerasParamManager

__all__ = ["KerasParamManager"]
