"""Experiments: what a YAML file's root is."""

from neon.experiments.fit import FitExperiment
from neon.experiments.fit_predict_err import FitPredictErrorExperiment

__all__ = ["FitExperiment", "FitPredictErrorExperiment"]
