"""Theano (or PyTensor), Lasagne and Keras over the tables of Multiverso: `sharedvar`, `param_manager`,
`lasagne_ext.param_manager`, `keras_ext.callbacks`, and `compat`, which makes the old packages work on Python 3.11."""
