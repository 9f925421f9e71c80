"""Experiments: the classes of a YAML file's root object."""

from neon.experiments.fit import FitExperiment
from neon.experiments.fit_predict_err import FitPredictErrorExperiment

__all__ = ["FitExperiment", "FitPredictErrorExperiment"]
