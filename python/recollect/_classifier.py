"""A classifier in the shape of scikit-learn's, which need not be installed."""
from __future__ import annotations

import inspect
from typing import Any, Mapping

import numpy

from ._library import image_array
from ._model import Model, OnProgress


def _one_each(y: Any, count: int) -> numpy.ndarray:
    labels = numpy.asarray(y)
    if labels.shape != (count,):
        raise ValueError(f"y has the shape {labels.shape}, expected ({count},): one class for each image")
    return labels


def _together(known: numpy.ndarray, found: numpy.ndarray) -> numpy.ndarray:
    """All classes, sorted. An array has one type for all, and str(class) has to stay the name in the model."""
    classes = numpy.union1d(known, found)
    if {str(one): one for one in classes} != {str(one): one for one in (*known, *found)}:
        raise ValueError(f"y is of type {found.dtype}, but the classes that are known of type {known.dtype}, "
                         "expected the same")
    return classes


class Classifier:
    """fit, partial_fit, predict, predict_proba and score around a Model, which is `model_`.

    X are images, uint8 (count, height, width, channels) or (count, height, width); with image_shape=(height, width,
    channels) rows of so many numbers will do, which is what scikit-learn hands from one step to the next. y are classes
    of any type that can be sorted; a class is called str(class) in the model. partial_fit adds classes to those that
    fit, or the first partial_fit, has taught: without any image of these, which is what recollect is for. Images of
    classes that the model knows are welcome beside new ones.

    method, net, epochs, batch, learning_rate: as in Model.set; None: what options say, else recollect's own choice.
    random_state: the seed of every random number. options: anything else that Model.set takes.
    """

    _estimator_type = "classifier"  # what scikit-learn before 1.6 asks for in place of tags

    # An estimator must name its arguments. `others` has none: it is there to say where they belong.
    def __init__(self, *, method: str | None = None, net: str | None = None, epochs: int | None = None,
                 batch: int | None = None, learning_rate: float | None = None, random_state: int | None = None,
                 image_shape: tuple[int, int, int] | None = None, options: Mapping[str, object] | None = None,
                 backend: str = "cpu", threads: int = 0, progress: OnProgress | None = None, **others: object):
        for name, value in others.items():
            raise TypeError(f"Classifier has no argument {name!r}; options={{{name!r}: {value!r}}} sets an option of "
                            "Model.set")
        self.method = method
        self.net = net
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.image_shape = image_shape
        self.options = options
        self.backend = backend
        self.threads = threads
        self.progress = progress

    # ---- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Classifier:
        """Teaches a new model the classes of y, at least two."""
        return self._learn(Model(backend=self.backend, threads=self.threads).set(**self._chosen()), X, y, None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Classifier:
        """Teaches the classes of y beside those that are known. `classes`, which other classifiers must be told
        beforehand, has no effect."""
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        return self._learn(self.model_.set(**self._chosen(), merge=True), X, y, self.classes_)

    def _chosen(self) -> dict[str, object]:
        own = {"method": self.method, "net": self.net, "epochs": self.epochs, "batch": self.batch,
               "learning_rate": self.learning_rate, "seed": self.random_state}
        return {**(self.options or {}), **{name: value for name, value in own.items() if value is not None}}

    def _learn(self, model: Model, X: Any, y: Any, known: numpy.ndarray | None) -> Classifier:
        images = self._images(X)
        found, numbers = numpy.unique(_one_each(y, len(images)), return_inverse=True)
        classes = found if known is None else _together(known, found)
        self.report_ = model.learn(images, numbers, classes=[str(one) for one in found], progress=self.progress)
        self.classes_ = classes
        self.n_features_in_ = int(numpy.prod(images.shape[1:]))
        self.model_ = model
        return self

    def _images(self, X: Any) -> numpy.ndarray:
        array = numpy.asarray(X)
        if array.ndim == 2 and self.image_shape is not None:
            array = array.reshape(len(array), *self.image_shape)
        return image_array(array)

    # ---- predicting --------------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> numpy.ndarray:
        """The probability of every class: (count, classes), in the order of classes_."""
        return self._fitted().predict_proba(self._images(X))[:, self._labels()]

    def predict(self, X: Any) -> numpy.ndarray:
        """The most probable class of each image."""
        best = self._fitted().predict(self._images(X)).labels[:, 0]
        return self.classes_[numpy.argsort(self._labels())[best]]

    def _labels(self) -> list[int]:
        """The label that the model has for each class: it counts classes in the order in which it learnt them."""
        places = {name: label for label, name in enumerate(self.model_.classes)}
        return [places[str(one)] for one in self.classes_]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The part of the images whose class is predicted right."""
        best = self.predict(X)
        return float(numpy.average(best == _one_each(y, len(best)), weights=sample_weight))

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            message = "this Classifier has learnt nothing yet: call fit first"
            try:
                from sklearn.exceptions import NotFittedError
            except ImportError:
                raise ValueError(message) from None
            raise NotFittedError(message)
        return self.model_

    # ---- what scikit-learn asks for ----------------------------------------------------------------------------------

    @classmethod
    def _arguments(cls) -> dict[str, Any]:
        """The arguments that it has names for, and their defaults."""
        return {name: one.default for name, one in inspect.signature(cls).parameters.items()
                if one.kind is not one.VAR_KEYWORD}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """One that was pickled when there were fewer arguments has the defaults of the others."""
        self.__dict__.update({**self._arguments(), **state})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {name: getattr(self, name) for name in self._arguments()}

    def set_params(self, **params: Any) -> Classifier:
        """Changes arguments that it was made with."""
        there = self.get_params()
        for name, value in params.items():
            if name not in there:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                                 f"{sorted(there)!r}. options={{{name!r}: {value!r}}} sets an option of Model.set.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        initial = self._arguments()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not initial[name]]
        return f"Classifier({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True),
                    classifier_tags=ClassifierTags(),
                    input_tags=InputTags(two_d_array=self.image_shape is not None, three_d_array=True))
