"""A distributed layer by the document's recipe (lines 27 to 50): a derived class of the layer that is not distributed."""

from neon.models.layer import L2PoolingLayer


class OwnL2PoolingLayerDist(L2PoolingLayer):
    def fprop(self, inputs_):
        inputs = self.input.get_fprop_view(inputs_)
        super(OwnL2PoolingLayerDist, self).fprop(inputs)

    # Similarly for bprop
    def bprop(self, error, inputs_, epoch, momentum):
        # redo-ing get_fprop_view for inputs, could cache for speed-up
        inputs = self.input.get_fprop_view(inputs_)
        super(OwnL2PoolingLayerDist, self).bprop(error, inputs, epoch, momentum)


class HaloReturningL2PoolingLayerDist(OwnL2PoolingLayerDist):
    """For a model in which the error of the input is not halo consistent: the layer takes care of it, as the document's
    LCNDist does."""

    def bprop(self, error, inputs_, epoch, momentum):
        super(HaloReturningL2PoolingLayerDist, self).bprop(error, inputs_, epoch, momentum)
        self.berror = self.input.get_bprop_view(self.berror)
