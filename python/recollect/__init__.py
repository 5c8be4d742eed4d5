"""recollect: teaches an image classifier new classes without keeping the old images.

    import recollect

    model = recollect.Model()
    model.learn("animals/")                    # animals/cat/*.jpg, animals/dog/*.jpg
    model.learn("birds/")                      # more classes; the images of animals/ are not needed any more
    print(model.predict("photo.jpg").best)
    model.save("more.safetensors")

Model is the whole of it. Classifier has the shape of scikit-learn's estimators. run() repeats experiments.
"""
from ._classifier import Classifier
from ._errors import (Cancelled, DeviceError, FormatError, InputOutputError, InternalError, InvalidArgument,
                      NumericError, OutOfMemory, RecollectError, RunError, Unsupported, Unsynced)
from ._experiment import results, run
from ._library import Progress, lib as _lib, machine, methods, nets, presets, published_nets, settings, text as _text
from ._model import Model
from ._predictor import Answers, Predictor

__version__ = _text(_lib.recollect_version())
load = Model.load
import_weights = Model.import_weights

__all__ = ["Answers", "Cancelled", "Classifier", "DeviceError", "FormatError", "InputOutputError", "InternalError",
           "InvalidArgument", "Model", "NumericError", "OutOfMemory", "Predictor", "Progress", "RecollectError",
           "RunError", "Unsupported", "Unsynced", "import_weights", "load", "machine", "methods", "nets", "presets",
           "published_nets", "results", "run", "settings"]
