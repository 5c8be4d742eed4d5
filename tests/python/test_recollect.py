"""The Python package: test_python.sh has laid it out as a wheel does.

usage: test_recollect.py HEADER [TEST...]
"""
import copy
import gc
import inspect
import logging
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import unittest.mock
import weakref

import numpy
import safetensors.numpy

import recollect
from patterns import QUICK, draw, write
from recollect import _errors, _library

try:
    import torch
except ImportError:
    torch = None
try:
    import sklearn
    import sklearn.base
    import sklearn.metrics
    import sklearn.model_selection
    import sklearn.pipeline
    import sklearn.preprocessing
    import sklearn.utils.estimator_checks as checks
except ImportError:
    sklearn = None

HEADER = pathlib.Path(sys.argv.pop(1))
ENDLESS = {**QUICK, "epochs": 100000, "min_steps": 0}
taught = None  # the bytes of a model that knows rows and columns


def setUpModule():
    global taught
    # Where this process inherited that SIGINT is ignored, as of a shell's "&", the tests of Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with recollect.Model(threads=1, hold_out=0.3, **QUICK) as model:
        model.learn(*draw(["rows", "columns"], 80))
        taught = model.to_bytes()


def a_model(**arguments):
    return recollect.Model.from_bytes(taught, threads=1, **arguments)


class Declarations(unittest.TestCase):
    """What the package believes about the library is what the header says."""

    def test_every_function_is_there(self):
        names = re.findall(r"^RECOLLECT_API [^;]*?\b(recollect_\w+)\(", HEADER.read_text(), re.MULTILINE)
        self.assertGreater(len(names), 50)
        for name in names:
            self.assertTrue(callable(getattr(_library.lib, name)), name)

    def test_structures_are_laid_out_as_the_compiler_does(self):
        ffi = _library.ffi
        shapes, program = {}, ["#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
        for name in ffi.list_types()[0]:
            try:
                size, kind = ffi.sizeof(name), ffi.typeof(name)
            except (ffi.error, TypeError):  # a function, or a handle
                continue
            if kind.kind == "struct":
                shapes[name] = [size, *(field.offset for _, field in kind.fields)]
                offsets = "".join(f", offsetof({name}, {field})" for field, _ in kind.fields)
                program.append(f'printf("{name}{" %zu" * len(shapes[name])}\\n", sizeof({name}){offsets});')
        self.assertGreater(len(shapes), 15)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-o", f"{folder}/layout", "-"], check=True,
                           text=True, input="\n".join([*program, "}"]))
            printed = subprocess.run([f"{folder}/layout"], capture_output=True, text=True, check=True).stdout
        self.assertEqual({line.split()[0]: list(map(int, line.split()[1:])) for line in printed.splitlines()}, shapes)

    def test_every_status_has_an_exception(self):
        self.assertEqual({*_library.STATUS.values()} - {"OK"}, {*_errors.BY_STATUS})
        for kind in [recollect.RunError, *_errors.BY_STATUS.values()]:
            self.assertTrue(issubclass(kind, recollect.RecollectError))
            self.assertIs(getattr(recollect, kind.__name__), kind)

    def test_version_and_lists(self):
        numbers = re.findall(r"^#define RECOLLECT_VERSION_\w+ (\d+)$", HEADER.read_text(), re.MULTILINE)
        self.assertEqual(recollect.__version__, ".".join(numbers))
        self.assertIn("cwd", [method["name"] for method in recollect.methods()])
        self.assertIn("demo", [preset["name"] for preset in recollect.presets()])
        self.assertIn("resnet32", recollect.nets())
        epochs = next(setting for setting in recollect.settings() if setting["name"] == "epochs")
        self.assertEqual((epochs["type"], epochs["choices"]), ("whole number", None))
        self.assertGreaterEqual(epochs["low"], 0)
        self.assertIn("backend cpu", recollect.machine())

    def test_hints_are_there(self):
        for kind in (recollect.Model, recollect.Predictor, recollect.Classifier):
            for name, function in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    self.assertIn("return", function.__annotations__, f"{kind.__name__}.{name}")
        self.assertTrue((_library.FOLDER / "py.typed").exists())


class Learning(unittest.TestCase):
    def test_folder_array_and_sequence_teach_the_same(self):
        images, labels = draw(["columns", "rows"], 40)
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            order = numpy.argsort(labels, kind="stable")  # as a folder has them
            write(pathlib.Path(folder), images[order], labels[order])
            with recollect.Model(threads=1, hold_out=0, size=16, **QUICK) as model:
                report = model.learn(folder, progress=seen.append)
        self.assertEqual((report["images"], report["new_classes"]), (40, ["columns", "rows"]))
        self.assertEqual({one.stage for one in seen}, {"reading", "training", "estimation"})
        self.assertEqual(seen[-1].fraction, 1)
        self.assertEqual(str(seen[-1]), seen[-1].text)
        self.assertIn("cross entropy", {name for one in seen for name in one.losses})
        results = []
        for given, names, classes in ((images, labels, None), (list(images), labels.tolist(), None),
                                      (images[..., None], (labels == "rows").astype(int), ["columns", "rows"])):
            with recollect.Model(threads=1, **QUICK) as model:
                model.learn(given, names, classes=classes)
                self.assertEqual(model.classes, ["columns", "rows"])
                results.append(model.predict_proba(images))
        for other in results[1:]:
            numpy.testing.assert_array_equal(results[0], other)

    def test_images_that_are_not_in_memory(self):
        images, labels = draw(["rows", "columns"], 8)

        class Images:
            """As a data set of h5py: numpy can make an array of it, which reads all of it."""
            lengths = [8]

            def __len__(self):
                return self.lengths.pop(0) if len(self.lengths) > 1 else self.lengths[0]

            def __getitem__(self, index):
                return images[index]

            def __array__(self, dtype=None, copy=None):
                raise MemoryError("all images at once")
        with recollect.Model(threads=1, **QUICK) as model:
            model.learn(Images(), labels)
        with recollect.Model(threads=1, **QUICK) as model:
            Images.lengths = [8, 1000]  # it grows when its labels are there already
            self.assertEqual(model.learn(Images(), labels)["images"], 8)

        class Tensor:
            """As one of PyTorch, which is in memory."""
            __dlpack__ = None

            def __len__(self):
                return 8

            def __array__(self, dtype=None, copy=None):
                return images
        with recollect.Model(threads=1, **QUICK) as model:
            model.learn(Tensor(), labels)

    def test_more_classes_without_the_old_images(self):
        with a_model() as model:
            before = model.predict_proba(draw(["rows"], 5)[0])
            report = model.learn(*draw(["disc", "frame"], 40))
            self.assertEqual((model.classes, model.tasks), (["columns", "rows", "disc", "frame"], [2, 2]))
            self.assertEqual(report["classes"], 4)
            self.assertEqual(before.shape, (5, 2))
            self.assertEqual(model.predict_proba(draw(["rows"], 5)[0]).shape, (5, 4))  # by a predictor that knows them
            with self.assertRaisesRegex(recollect.InvalidArgument, "already knows disc, rows"):
                model.learn(*draw(["rows", "disc"], 8))

    def test_predictors_keep_a_model_as_it_is(self):
        with a_model() as model:
            with model.predictor() as predictor:
                with self.assertRaisesRegex(recollect.InvalidArgument, "predictor"):
                    model.learn(*draw(["disc", "frame"], 20))
            with self.assertRaisesRegex(ValueError, "the Predictor is closed"):
                predictor.predict(draw(["rows"], 1)[0])
            model.set(epochs=1, min_steps=0).learn(*draw(["disc", "frame"], 20))

    def test_options(self):
        with recollect.Model(threads=1) as model:
            self.assertIs(model.set(milestone=[3, 5], flip=False, learning_rate=0.25, method="finetune"), model)
            self.assertEqual([model.get(name) for name in ("milestone", "flip", "learning_rate", "method")],
                             ["[3, 5]", "false", "0.25", "finetune"])
            with self.assertRaisesRegex(recollect.InvalidArgument, "did you mean 'noise'"):
                model.set(flip=True, nois=3)
            self.assertEqual(model.get("flip"), "false")  # none of them was set
            with self.assertRaisesRegex(recollect.InvalidArgument, "epochs is 'many'"):
                model.set(epochs="many")
            with self.assertRaisesRegex(TypeError, "of type dict"):
                model.set(epochs={})

    def test_bad_lessons(self):
        images, labels = draw(["rows", "columns"], 8)
        with recollect.Model(threads=1, **QUICK) as model:
            for error, message, arguments in (
                    (TypeError, "type float64, expected uint8: whole numbers from 0 to 255$", (images / 255, labels)),
                    (ValueError, "channels first, expected", (numpy.zeros((8, 3, 16, 16), numpy.uint8), labels)),
                    (TypeError, "need labels", (images,)),
                    (TypeError, "expected uint8.*a folder for learn", (["a.png"] * 8, labels)),
                    (TypeError, "labels are of type float64", (images, numpy.zeros(8))),
                    (TypeError, "labels are of type object", (images, numpy.array([None] * 8))),
                    (TypeError, "takes `classes`", (images, numpy.zeros(8, int))),
                    (ValueError, r"shape \(16,\), expected \(count", (images[0, 0], labels)),
                    (ValueError, r"shape \(7,\), expected \(8,\)", (images, labels[1:])),
                    (ValueError, "image 1 has the shape", ([images[0], images[1, 1:]] * 4, labels)),
                    (TypeError, "type float64, expected uint8", ([images[0], images[1] / 1] * 4, labels)),
                    (ValueError, "there are no images", ([], [])),
                    (ValueError, "zero character", (images, ["a\0b", "c"] * 4)),
                    (recollect.InvalidArgument, "class", (images, ["rows"] * 8)),
                    (recollect.InvalidArgument, "squares|square", (images[:, 1:], labels)),
                    (recollect.InputOutputError, "no-such-folder", ("no-such-folder",)),
                    (TypeError, "no labels of their own", (".", labels))):
                with self.assertRaisesRegex(error, message):
                    model.learn(*arguments)
            with self.assertRaisesRegex(recollect.InvalidArgument, "from 0 to 2, expected 0 to 1"):
                model.learn(images, [0, 2] * 4, classes=["a", "b"])
            with self.assertRaisesRegex(TypeError, "names already"):
                model.learn(images, labels, classes=["a", "b"])
            with self.assertRaisesRegex(TypeError, "one str, expected a list"):
                model.learn(images, [0, 1] * 4, classes="ab")
            self.assertEqual(model.classes, [])


class Predicting(unittest.TestCase):
    def test_numpy_says_the_same(self):
        """The net forward in numpy, and in PyTorch where it is there, from the file of the model."""
        images, labels = draw(["rows", "columns"], 12, seed=1)
        weights = safetensors.numpy.load(taught)
        with a_model() as model:
            info = model.info()
            answers = model.predict(images, top=2, features=True)
            table = model.predict_proba(images)
        self.assertTrue((answers.best == labels).all())
        numpy.testing.assert_array_equal(numpy.take_along_axis(table, answers.labels, 1), answers.probabilities)
        inputs = (images[:, None].astype(numpy.float64) / 255 - info["mean"][0]) / info["std"][0]
        for convolution in filter(None, (numpy_convolution, torch_convolution if torch else None)):
            features = forward(inputs, weights, convolution)
            logits = features @ weights["head.classifiers.0.weight"].astype(float).T
            odds = numpy.exp(logits - logits.max(1, keepdims=True))
            # 7 layers of at most 144 products in float: errors of some 1e-6 beside the largest number.
            numpy.testing.assert_allclose(answers.features, features, rtol=2e-5, atol=2e-5 * abs(features).max())
            numpy.testing.assert_allclose(table, odds / odds.sum(1, keepdims=True), rtol=1e-4)

    def test_images_of_any_layout_and_files(self):
        images, labels = draw(["rows", "columns"], 6, seed=2)
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            expected = model.predict_proba(images)
            images.flags.writeable = False
            wide = numpy.repeat(numpy.repeat(images, 2, 1), 2, 2)
            for same in (images, images[..., None], numpy.asfortranarray(images), wide[:, ::2, ::2], images.tolist()):
                given = numpy.array(same, numpy.uint8) if isinstance(same, list) else same
                numpy.testing.assert_array_equal(model.predict_proba(given), expected)
            paths = write(pathlib.Path(folder), images, labels)
            contents = [path.read_bytes() for path in paths]
            for same in (paths, [str(path) for path in paths], contents, [bytearray(one) for one in contents],
                         [memoryview(one) for one in contents], [paths[0], *contents[1:]]):
                numpy.testing.assert_array_equal(model.predict_proba(same), expected)
            numpy.testing.assert_array_equal(model.predict_proba(paths[0]), expected[:1])
            numpy.testing.assert_array_equal(model.predict_proba(contents[0]), expected[:1])
            self.assertTrue((model.predict(wide).best == labels).all())
            if torch:
                numpy.testing.assert_array_equal(model.predict_proba(torch.from_numpy(images.copy())), expected)

    def test_answers(self):
        images, _ = draw(["rows", "columns"], 40, seed=3)
        strange = numpy.random.default_rng(4).integers(0, 256, (8, 16, 16)).astype(numpy.uint8)
        with a_model() as model:
            answers, others = model.predict(images), model.predict(strange)
        self.assertEqual((len(answers), answers.labels.shape, answers.names.shape), (40, (40, 1), (40, 1)))
        self.assertEqual([answers.labels.dtype, answers.probabilities.dtype, answers.nearest.dtype],
                         [numpy.int32, numpy.float32, numpy.int32])
        self.assertIsNone(answers.features)
        numpy.testing.assert_array_equal(answers.nearest, answers.labels[:, 0])
        self.assertGreater(numpy.median(others.unfamiliarity), numpy.median(answers.unfamiliarity))
        self.assertGreater(numpy.median(answers.stranger), numpy.median(others.stranger))  # the model held images out

    def test_pictures_that_cannot_be_read(self):
        images, labels = draw(["rows"], 1)
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            path = write(pathlib.Path(folder), images, labels)[0]
            with self.assertRaisesRegex(recollect.FormatError, "no picture"):
                model.predict([path, b"nothing"])
            with self.assertRaisesRegex(recollect.InputOutputError, "cannot open 'none.png'"):
                model.predict("none.png")
            with self.assertLogs("recollect", logging.WARNING) as log:
                answers = model.predict([path, b"nothing"], skip_broken=True)
            self.assertIn("no picture", log.output[0])
            self.assertEqual((answers.best.tolist(), answers.readable.tolist()), (["rows", ""], [True, False]))
            self.assertEqual(answers.labels[1, 0], -1)
            self.assertTrue(numpy.isnan(answers.probabilities[1, 0]))

    def test_bad_questions(self):
        images, _ = draw(["rows"], 2)
        with a_model() as model:
            for error, message, given, options in (
                    (TypeError, "type float64, expected uint8", images / 255, {}),
                    (TypeError, "type int64, expected uint8", images.astype(numpy.int64), {}),
                    (TypeError, "expected uint8.*a list of paths for predict", numpy.array(["a.png", "b.png"]), {}),
                    (TypeError, "expected uint8.*a list of paths for predict", (path for path in ["a.png"]), {}),
                    (TypeError, "a picture is of type int", ["a.png", 3], {}),
                    (ValueError, r"shape \(16, 16\)", images[0], {}),
                    (ValueError, "that of one image", images[0][..., None], {}),
                    (ValueError, "that of one image", numpy.zeros((16, 16, 3), numpy.uint8), {}),
                    (ValueError, "zero byte", "a\0b", {}),
                    (recollect.InvalidArgument, "top is 0", images, {"top": 0}),
                    (recollect.InvalidArgument, "top is -1", images, {"top": -1}),
                    (recollect.InvalidArgument, "top is 3, expected 1 to 2", images, {"top": 3}),
                    (recollect.InvalidArgument, "channels", numpy.zeros((1, 16, 16, 2), numpy.uint8), {}),
                    (recollect.InvalidArgument, "count is 0", images[:0], {}),
                    (recollect.InvalidArgument, "count is 0", [], {})):
                with self.assertRaisesRegex(error, message):
                    model.predict(given, **options)
        with self.assertRaisesRegex(ValueError, "the Model is closed"):
            model.predict(images)
        with recollect.Model(threads=1) as empty, self.assertRaisesRegex(recollect.InvalidArgument, "knows nothing"):
            empty.predict(images)

    def test_nothing_is_copied(self):
        images = numpy.zeros((2000, 16, 16), numpy.uint8)
        with a_model() as model:
            model.predict(images[:1])
            tracemalloc.start()
            model.predict(images)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        self.assertLess(peak, images.nbytes // 4)  # 512 kB of pixels, 40 kB of answers


class EvaluatingAndDreaming(unittest.TestCase):
    def test_evaluate(self):
        images, labels = draw(["rows", "columns"], 20, seed=5)
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            right = model.evaluate(images, labels)
            wrong = model.evaluate(images, (labels == "columns").astype(int))  # the label of columns is 0
            write(pathlib.Path(folder), images, labels)
            files = model.evaluate(folder)
            with self.assertRaisesRegex(recollect.InvalidArgument, "does not know the class 'disc'"):
                model.evaluate(images, ["disc"] * 20)
            with self.assertRaisesRegex(recollect.InvalidArgument, "from 0 to 2"):
                model.evaluate(images, [0, 2] * 10)
            with self.assertRaisesRegex(TypeError, "need labels"):
                model.evaluate(images)
            with self.assertRaisesRegex(TypeError, "no labels"):
                model.evaluate(folder, labels)
        self.assertEqual((right["accuracy"], right["images"], right["verdict"]), (100, 20, "good"))
        numpy.testing.assert_array_equal(right["confusion"], [[10, 0], [0, 10]])
        numpy.testing.assert_array_equal(wrong["confusion"], [[0, 10], [10, 0]])
        numpy.testing.assert_array_equal(files["confusion"], right["confusion"])

    def test_dreams(self):
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            stages = []
            dreams = model.dream("rows", 4, progress=lambda at: stages.append(at.stage))
            self.assertEqual((dreams.dtype, dreams.shape[1:]), (numpy.uint8, (16, 16, 1)))
            self.assertLessEqual(len(dreams), 4)
            self.assertIn("inversion", stages)
            numpy.testing.assert_array_equal(model.dream(1, 4), dreams)
            with self.assertRaisesRegex(recollect.InvalidArgument, "does not know the class 'disc'"):
                model.dream("disc")
            with self.assertRaisesRegex(recollect.InvalidArgument, "count is 0"):
                model.dream("rows", 0)
            write(pathlib.Path(folder) / "real", *draw(["rows", "columns"], 4))
            told = model.dream_folder(f"{folder}/dreams", per_class=2, steps=5, seed=7, beside=f"{folder}/real")
            self.assertTrue(pathlib.Path(folder, "dreams", "all.png").exists())
            self.assertEqual([len(one["real_probabilities"]) for one in told["classes"]], [2, 2])
            with self.assertRaisesRegex(recollect.InputOutputError, "is there already"):
                model.dream_folder(f"{folder}/dreams", per_class=2, steps=5)
            chosen = model.dream_folder(f"{folder}/chosen", per_class=0, steps=5, seed=7)
            self.assertEqual(chosen, {**model.dream_folder(f"{folder}/sixteen", steps=5, seed=7),
                                      "folder": f"{folder}/chosen"})
            self.assertEqual(chosen["per_class"], 16)
            with self.assertRaisesRegex(recollect.InvalidArgument, "per_class is 20000, expected 0 to 10000"):
                model.dream_folder(f"{folder}/many", per_class=20000)
            with self.assertRaisesRegex(recollect.InvalidArgument, "per_class is -1"):
                model.dream_folder(f"{folder}/none", per_class=-1)


class Files(unittest.TestCase):
    def test_save_and_load(self):
        images, _ = draw(["rows", "columns"], 4)
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "modèle.safetensors")
            model.save(path)
            self.assertEqual(path.read_bytes(), taught)
            with self.assertRaisesRegex(recollect.InputOutputError, "is there already"):
                model.save(path)
            model.save(str(path), overwrite=True)
            with recollect.load(path, threads=1) as again:
                numpy.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
                self.assertEqual((again.classes, again.tasks), (["columns", "rows"], [2]))
                self.assertEqual(again.image_shape, (16, 16, 1))
                self.assertEqual(again.info()["net"], "resnet-small")
                self.assertEqual(again.stored_bytes, model.stored_bytes)
                self.assertEqual(repr(again), "<recollect.Model: 2 classes: columns, rows>")

    def test_export(self):
        with a_model() as model, tempfile.TemporaryDirectory() as folder:
            graph, header = pathlib.Path(folder, "net.onnx"), pathlib.Path(folder, "net.h")
            model.export(graph)
            self.assertIn(b"probabilities", graph.read_bytes())
            model.export(str(header), "c")
            self.assertIn("int net_predict(", header.read_text())
            model.export(f"{folder}/net.safetensors", "torch")
            weights, own = safetensors.numpy.load_file(f"{folder}/net.safetensors"), safetensors.numpy.load(taught)
            self.assertGreater(len(own.keys() & weights.keys()), 30)
            for name in own.keys() & weights.keys():
                numpy.testing.assert_array_equal(weights[name], own[name])
            with self.assertRaisesRegex(recollect.InputOutputError, "is there already"):
                model.export(header, "c")
            with self.assertRaisesRegex(recollect.InvalidArgument, "format is 'tflite'"):
                model.export(header, "tflite", overwrite=True)

    def test_bad_files(self):
        for kind, message, content in ((recollect.FormatError, "safetensors", b"no model"),
                                       (recollect.FormatError, "", taught[:-1]),
                                       (recollect.InvalidArgument, "net is 'resnet-smell'",
                                        taught.replace(b"resnet-small", b"resnet-smell"))):
            with self.assertRaisesRegex(kind, message):
                recollect.Model.from_bytes(content)
        with self.assertRaisesRegex(OSError, "cannot open 'none.safetensors'"):
            recollect.load("none.safetensors")
        with self.assertRaisesRegex(recollect.InvalidArgument, "unknown backend 'abacus'"):
            recollect.Model(backend="abacus")
        with self.assertRaisesRegex(TypeError, "backend is of type int"):
            recollect.Model(backend=3)
        with recollect.Model(threads=1) as empty, self.assertRaisesRegex(recollect.InvalidArgument, "knows nothing"):
            empty.to_bytes()

    def test_pickles_and_copies(self):
        images, _ = draw(["rows", "columns"], 4)
        with a_model() as model:
            model.set(epochs=3, merge=True)
            for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
                with other:
                    numpy.testing.assert_array_equal(other.predict_proba(images), model.predict_proba(images))
                    self.assertEqual((other.get("epochs"), other.get("merge")), ("3", "true"))
        with recollect.Model(threads=1, epochs=7) as empty, pickle.loads(pickle.dumps(empty)) as other:
            self.assertEqual((other.classes, other.get("epochs")), ([], "7"))


class Published(unittest.TestCase):
    def test_import(self):
        self.assertIn("cifar-resnet20", recollect.published_nets())
        names = ["chat", "hot dog", "été"]
        with tempfile.TemporaryDirectory() as folder:
            file, labels = pathlib.Path(folder, "weights.safetensors"), pathlib.Path(folder, "names.txt")
            safetensors.numpy.save_file(published_weights(len(names)), file)
            labels.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
            images = numpy.random.default_rng(8).integers(0, 256, (3, 32, 32, 3), numpy.uint8)
            with recollect.import_weights(file, classes=names, threads=1) as model:
                self.assertEqual((model.classes, model.info()["net"]), (names, "cifar-resnet20"))
                table = model.predict_proba(images)
            with recollect.import_weights(str(file), net="cifar-resnet20", classes=labels, threads=1) as other:
                self.assertEqual(other.classes, names)
                numpy.testing.assert_array_equal(other.predict_proba(images), table)
            with recollect.import_weights(file, threads=1) as other:
                self.assertEqual(other.classes, ["class-0000", "class-0001", "class-0002"])
            for error, message, options in (
                    (recollect.InvalidArgument, "^'classes' has 2 names", {"classes": ["a", "b"]}),
                    (ValueError, "expected one line", {"classes": ["a", "b\nc", "d"]}),
                    (recollect.FormatError, "cifar-resnet32", {"net": "cifar-resnet32"}),
                    (recollect.InvalidArgument, "resnet-1000", {"net": "resnet-1000"}),
                    (TypeError, "net is of type int", {"net": 20})):
                with self.assertRaisesRegex(error, message):
                    recollect.import_weights(file, **options)
            with self.assertRaisesRegex(recollect.InputOutputError, "none.pth"):
                recollect.import_weights("none.pth")


def published_weights(classes):
    """Random weights with the names and shapes of the published ResNet-20 for 32 x 32 pixels."""
    random, weights = numpy.random.default_rng(9), {}

    def convolution(name, norm, c_in, c_out):
        weights[f"{name}.weight"] = random.normal(0, (2 / 9 / c_in) ** 0.5, (c_out, c_in, 3, 3)).astype(numpy.float32)
        for one, low, high in (("weight", 0.5, 1.5), ("bias", -1, 1), ("running_mean", -1, 1),
                               ("running_var", 0.5, 1.5)):
            weights[f"{norm}.{one}"] = random.uniform(low, high, c_out).astype(numpy.float32)
    convolution("conv1", "bn1", 3, 16)
    for stage in (1, 2, 3):
        for block in range(3):
            name, c = f"layer{stage}.{block}", 8 << stage
            convolution(f"{name}.conv1", f"{name}.bn1", c // 2 if stage > 1 and block == 0 else c, c)
            convolution(f"{name}.conv2", f"{name}.bn2", c, c)
    weights["linear.weight"] = random.normal(0, 0.1, (classes, 64)).astype(numpy.float32)
    weights["linear.bias"] = random.normal(0, 0.1, classes).astype(numpy.float32)
    return weights


class Stopping(unittest.TestCase):
    def stopped(self, kind, how):
        """A lesson without end is stopped by `how`, which begins on another thread. Returns the exception."""
        with a_model() as model:
            model.set(**ENDLESS)
            began, after = threading.Event(), []

            def wait_and_stop():
                began.wait(30)
                after.append(time.monotonic())
                how(model)
            other = threading.Thread(target=wait_and_stop)
            other.start()
            with self.assertRaises(kind) as caught:
                model.learn(*draw(["disc", "frame"], 40), progress=lambda at: began.set())
            self.assertLess(time.monotonic() - after[0], 2)
            began.set()
            other.join()
            self.assertEqual(model.classes, ["columns", "rows"])
            numpy.testing.assert_array_equal(model.predict_proba(draw(["rows"], 3)[0]),
                                             a_model().predict_proba(draw(["rows"], 3)[0]))
            return caught.exception

    def test_control_c(self):
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.stopped(KeyboardInterrupt, lambda model: os.kill(os.getpid(), signal.SIGINT))

    def test_cancel(self):
        self.stopped(recollect.Cancelled, lambda model: model.cancel())
        images, caught = numpy.zeros((40000, 16, 16), numpy.uint8), []

        def predict():
            try:
                model.predict(images)
            except recollect.Cancelled as error:
                caught.append(error)
        with a_model() as model:
            other = threading.Thread(target=predict)
            other.start()
            while other.is_alive():
                model.cancel()
                time.sleep(0.005)
        self.assertEqual(len(caught), 1)

    def test_cancel_while_images_are_made_ready(self):
        images, labels = draw(["disc", "frame"], 40)

        class Images:
            """Stops the call that makes an array of it."""
            __dlpack__ = None

            def __len__(self):
                return 40

            def __array__(self, dtype=None, copy=None):
                stopper = threading.Thread(target=model.cancel)
                stopper.start()
                stopper.join()
                return images
        with a_model() as model:
            for call in (lambda: model.learn(Images(), labels), lambda: model.predict(Images()),
                         lambda: model.predict_proba(Images()), lambda: model.evaluate(Images(), ["rows"] * 40)):
                with self.assertRaises(recollect.Cancelled):
                    call()
            self.assertEqual(model.classes, ["columns", "rows"])
            model.predict(images)  # and is not stopped for good
            with model.predictor() as predictor:
                predictor.cancel()  # stops nothing: it is at rest
                predictor.predict(images)

    def test_exceptions_of_callbacks(self):
        error = LookupError("enough")

        def progress(_):
            raise error
        with a_model() as model:
            model.set(**ENDLESS)
            with self.assertRaises(LookupError) as caught:
                model.learn(*draw(["disc", "frame"], 40), progress=progress)
            self.assertIs(caught.exception, error)

            class Images:
                def __len__(self):
                    return 4

                def __getitem__(self, index):
                    if index == 2:
                        raise error
                    return numpy.zeros((16, 16), numpy.uint8)
            with self.assertRaises(LookupError):
                model.learn(Images(), ["disc", "frame"] * 2)
            self.assertEqual(model.classes, ["columns", "rows"])

    def test_a_callback_may_close_the_model_but_not_use_it(self):
        said = []

        def use(_):
            with self.assertRaisesRegex(RuntimeError, "a callback cannot use the Model that calls it"):
                model.classes
            said.append(repr(model))
            model.close()
            raise InterruptedError
        model = a_model()
        model.set(**ENDLESS)
        with self.assertRaises(InterruptedError):
            model.learn(*draw(["disc", "frame"], 40), progress=use)
        self.assertEqual(said, ["<recollect.Model: at work>"])
        self.assertEqual(repr(model), "<recollect.Model: closed>")
        model = a_model()
        with self.assertRaisesRegex(ValueError, "the Model is closed"):  # which learns to the end, and is gone
            model.set(epochs=1, min_steps=0).learn(*draw(["disc", "frame"], 8), progress=lambda _: model.close())


class Threads(unittest.TestCase):
    def test_the_interpreter_goes_on(self):
        with a_model() as model:
            model.set(**ENDLESS)
            learner = threading.Thread(target=self.assertRaises, daemon=True,
                                       args=(recollect.Cancelled, model.learn, *draw(["disc", "frame"], 40)))
            learner.start()
            while not model._busy:
                time.sleep(0.001)
            began, turns = time.monotonic(), 0
            while time.monotonic() - began < 0.1:
                turns += 1
            model.cancel()
            learner.join(10)
            self.assertFalse(learner.is_alive())
        self.assertGreater(turns, 1000)

    def test_threads_share_models_and_take_predictors(self):
        images, _ = draw(["rows", "columns"], 50, seed=6)
        with a_model() as model:
            expected, results = model.predict_proba(images), []

            def work(predictor):
                for _ in range(5):
                    results.append(predictor.predict_proba(images))
            predictors = [model.predictor(), model.predictor(threads=2)]
            threads = [threading.Thread(target=work, args=(one,)) for one in (model, model, *predictors)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            model.close()  # its predictors still work
            results.append(predictors[0].predict_proba(images))
            self.assertEqual(len(results), 21)
            for result in results:
                numpy.testing.assert_array_equal(result, expected)

    def test_close_frees_what_other_threads_predict_with(self):
        images, _ = draw(["rows", "columns"], 200)
        model, refused, began = a_model(), [], threading.Barrier(3)

        def work():
            model.predict(images[:1])
            began.wait(30)
            try:
                while True:
                    model.predict(images)
            except ValueError as error:
                refused.append(str(error))
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        began.wait(30)
        model.close()
        for thread in threads:
            thread.join()
        self.assertEqual(refused, ["the Model is closed"] * 2)
        self.assertIsNone(model._own)  # the predictor of the model itself

    def test_children(self):
        """A child of fork() cannot use a model of its parent, even one that a thread of the parent uses; it can
        close it and make its own."""
        model, taken, over = a_model(), threading.Event(), threading.Event()

        def hold():
            with model._lock:
                taken.set()
                over.wait(30)
        other = threading.Thread(target=hold)
        other.start()
        taken.wait(30)
        child = os.fork()
        if child == 0:
            code = 1
            signal.alarm(20)  # rather than wait for ever for a lock
            try:
                try:
                    model.predict(draw(["rows"], 1)[0])
                except recollect.InvalidArgument:
                    model.close()
                    code = 0 if a_model().predict(draw(["rows"], 1)[0]).best[0] == "rows" else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        over.set()
        other.join()
        self.assertEqual(model.predict(draw(["rows"], 1)[0]).best[0], "rows")


class Memory(unittest.TestCase):
    @staticmethod
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_a_thousand_predictions(self):
        images, _ = draw(["rows", "columns"], 2)
        with a_model() as model:
            paths = [b"P5 16 16 255\n" + one.tobytes() for one in images]
            for _ in range(200):
                model.predict(images, top=2, features=True)
                model.predict(paths)
            counts, before = (sys.getrefcount(images), sys.getrefcount(model)), self.resident()
            for _ in range(1000):
                model.predict(images, top=2, features=True)
                model.predict(paths)
                with self.assertRaises(recollect.InvalidArgument):
                    model.predict(images, top=9)
            self.assertEqual((sys.getrefcount(images), sys.getrefcount(model)), counts)
            self.assertLess(self.resident() - before, 1 << 20)

    def test_models_are_freed_at_once(self):
        gc.disable()
        self.addCleanup(gc.enable)
        tasks = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            model = recollect.Model.from_bytes(taught, threads=3)
            model.predict(draw(["rows"], 1)[0])
            gone = weakref.ref(model)
            self.assertGreater(len(os.listdir("/proc/self/task")), tasks)
            try:
                model.set(**ENDLESS).learn(*draw(["disc", "frame"], 8), progress=lambda _: 1 / 0)
            except ZeroDivisionError:
                pass
            try:
                model.predict("none.png")
            except recollect.InputOutputError:
                pass
            del model
            self.assertIsNone(gone())
            self.assertEqual(len(os.listdir("/proc/self/task")), tasks)

    def test_lessons_and_failures_leave_nothing(self):
        images, labels = draw(["disc", "frame"], 4)
        with a_model() as model:
            def once():
                for given in (images, list(images)):
                    with self.assertRaises(ZeroDivisionError):
                        model.learn(given, labels, progress=lambda _: 1 / 0)
                with recollect.Model.from_bytes(taught, threads=1):
                    pass
                with self.assertRaises(recollect.FormatError):
                    recollect.Model.from_bytes(b"nothing")
            for _ in range(5):
                once()
            before = self.resident()
            for _ in range(20):
                once()
            self.assertLess(self.resident() - before, 3 << 20)


class Experiments(unittest.TestCase):
    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write(folder / "data", *draw(["rows", "columns", "disc", "frame"], 24))
            said = []
            options = {"data": folder / "data", "method": ["finetune", "cwd"], "threads": 1, "tasks": [2, 2],
                       "set": {**QUICK, "epochs": 1, "refine_epochs": 0, "min_steps": 0, "inversion_steps": 2,
                               "net": "resnet-small", "generator": "generator-small", "milestone": [], "size": 16}}
            part = recollect.run("demo", folder / "run", stop_after=1, progress=said.append, **options)
            self.assertTrue(said)
            self.assertEqual([one["tasks_done"] for one in tasks_of(part)], [1, 1])
            found = recollect.run("demo", folder / "run", resume=True, **options)
            self.assertEqual(found, recollect.results(folder / "run"))
            self.assertEqual([one["method"] for one in found["methods"]], ["finetune", "cwd"])
            for one in tasks_of(found):
                self.assertEqual((one["tasks_done"], len(one["confusion"]), len(one["tasks"])), (2, 4, 2))
            with recollect.load(folder / "run/cwd/task-2.safetensors", threads=1) as model:
                self.assertEqual(sorted(model.classes), ["columns", "disc", "frame", "rows"])
            for message, options in (("did you mean '--resume'", {"resum": True}), ("exists|resume", {})):
                with self.assertRaisesRegex(recollect.RunError, message) as caught:
                    recollect.run("demo", folder / "run", data=folder / "data", tasks=[2, 2], **options)
                self.assertIn(caught.exception.code, (1, 2))

    def test_control_c_leaves_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write(folder / "data", *draw(["rows", "columns"], 24))
            options = {"data": folder / "data", "method": "finetune", "threads": 1, "tasks": [2],
                       "set": {**QUICK, "net": "resnet-small", "milestone": [], "size": 16, "epochs": 100000}}

            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

            def wait(line):
                if line.startswith("forecast"):
                    timer.start()
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                recollect.run("demo", folder / "run", progress=wait, **options)
            self.assertLess(time.monotonic() - began, 10)
            self.assertTrue((folder / "run/first-task/checkpoint.safetensors").exists())

    def test_control_c_reaches_the_program_once_and_waits_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            program.write_text("#!/bin/sh\ntrap 'sleep 0.6; echo once >>\"$0.said\"; exit 130' INT\n"
                               "cut -d' ' -f5 /proc/$$/stat >&2\nwhile :; do sleep 0.02; done\n")
            program.chmod(0o700)
            groups = []

            def interrupt(line):
                groups.append(int(line))
                os.kill(os.getpid(), signal.SIGINT)
            with unittest.mock.patch("recollect._experiment.PROGRAM", program), self.assertRaises(KeyboardInterrupt):
                recollect.run("demo", folder, progress=interrupt)
            self.assertEqual(pathlib.Path(folder, "program.said").read_text(), "once\n")
            self.assertNotEqual(groups, [os.getpgid(0)])  # a terminal would send it a second one

    def test_the_program(self):
        said = subprocess.run([sys.executable, "-m", "recollect", "--version"], stdout=subprocess.PIPE, text=True,
                              check=True)
        self.assertEqual(said.stdout, f"recollect {recollect.__version__}\n")


def tasks_of(summary):
    return [run["results"] for method in summary["methods"] for run in method["runs"]]


class Classifiers(unittest.TestCase):
    def classifier(self, **arguments):
        return recollect.Classifier(options=QUICK, threads=1, random_state=1, **arguments)

    def test_fit_and_more(self):
        images, labels = draw(["rows", "columns"], 60)
        numbers = numpy.where(labels == "rows", 7, 30)
        classifier = self.classifier()
        self.assertIs(classifier.fit(images, numbers), classifier)
        self.assertEqual(classifier.classes_.tolist(), [7, 30])
        self.assertEqual(classifier.score(images, numbers), 1)
        self.assertEqual(classifier.score(images, numbers, sample_weight=numbers == 7), 1)
        for wrong in (numbers[:, None], numbers[:1]):  # which numpy would compare with every prediction
            with self.assertRaisesRegex(ValueError, "one class for each image"):
                classifier.score(images, wrong)
        classifier.partial_fit(*draw(["disc", "frame"], 40)[:1], [100, 2] * 20, classes=[2, 7, 30, 100])
        self.assertEqual(classifier.classes_.tolist(), [2, 7, 30, 100])
        self.assertEqual(classifier.model_.classes, ["7", "30", "2", "100"])
        table, best = classifier.predict_proba(images), classifier.predict(images)
        self.assertEqual(table.shape, (60, 4))
        numpy.testing.assert_allclose(table.sum(1), 1, rtol=1e-5)
        numpy.testing.assert_array_equal(best, classifier.classes_[table.argmax(1)])
        with self.assertRaisesRegex(ValueError, "the classes that are known of type int64"):
            classifier.partial_fit(images, labels)
        with self.assertRaisesRegex(recollect.InvalidArgument, "old classes are only taught beside new ones"):
            classifier.partial_fit(images, numbers)
        self.assertEqual(classifier.classes_.tolist(), [2, 7, 30, 100])
        again = pickle.loads(pickle.dumps(classifier))
        numpy.testing.assert_array_equal(again.predict_proba(images), classifier.predict_proba(images))
        del classifier.epochs  # as it was pickled when Classifier had no such argument
        self.assertIsNone(pickle.loads(pickle.dumps(classifier)).get_params()["epochs"])

    def test_names_and_rows(self):
        images, labels = draw(["rows", "columns"], 60)
        classifier = self.classifier(image_shape=(16, 16, 1), method="finetune")
        classifier.partial_fit(images.reshape(60, -1), labels)
        self.assertEqual(classifier.predict(images.reshape(60, -1)).tolist(), labels.tolist())
        self.assertEqual(classifier.model_.info()["method"], "finetune")
        self.assertEqual(classifier.n_features_in_, 256)

    def test_arguments_are_options(self):
        images, labels = draw(["rows", "columns"], 8)
        given = {"method": "finetune", "net": "resnet-small", "epochs": 2, "batch": 4, "learning_rate": 0.05}
        classifier = recollect.Classifier(threads=1, random_state=3, options={**QUICK, "epochs": 1}, **given)
        self.assertEqual({name: classifier.get_params()[name] for name in given}, given)
        self.assertNotIn("others", classifier.get_params())
        self.assertIn("epochs=2, batch=4, learning_rate=0.05", repr(classifier))
        classifier.set_params(batch=8).fit(images, labels)
        for name, value in {**given, "batch": 8, "seed": 3}.items():
            self.assertEqual(classifier.model_.get(name), str(value), name)
        again = recollect.Classifier(**classifier.get_params())
        self.assertEqual(again.get_params(), classifier.get_params())

    def test_bad_arguments(self):
        images, labels = draw(["rows", "columns"], 8)
        classifier = self.classifier()
        with self.assertRaisesRegex(ValueError, "learnt nothing yet"):
            classifier.predict(images)
        with self.assertRaisesRegex(TypeError, "expected uint8"):
            classifier.fit(images / 255, labels)
        for wrong, shape in ((images, r"\(8, 16, 16\)"), (labels[:, None], r"\(8, 1\)"), (labels[:1], r"\(1,\)")):
            with self.assertRaisesRegex(ValueError, rf"y has the shape {shape}, expected \(8,\): one class for each"):
                classifier.fit(images, wrong)
        with self.assertRaisesRegex(ValueError, r"Invalid parameter 'flip'.*\. options=\{'flip': False\} sets an option"):
            classifier.set_params(flip=False)
        with self.assertRaisesRegex(TypeError, r"no argument 'flip'; options=\{'flip': False\} sets an option"):
            recollect.Classifier(flip=False)
        self.assertFalse(hasattr(classifier, "classes_"))

    def test_types_of_classes(self):
        """partial_fit takes classes of any type that all of them can have without another name in the model."""
        lessons = draw(["rows", "columns"], 8), draw(["disc", "frame"], 8)

        def classes_of(first, more):
            classifier = self.classifier().set_params(options={**QUICK, "min_steps": 0})
            classifier.fit(lessons[0][0], numpy.tile(first, 4)).partial_fit(lessons[1][0], numpy.tile(more, 4))
            self.assertEqual(classifier.predict_proba(lessons[0][0]).shape, (8, 4))
            return classifier.classes_.tolist()
        names, others = numpy.array(["rows", "columns"]), numpy.array(["a", "long name"])
        self.assertEqual(classes_of(numpy.uint8([0, 255]), [-1, 256]), [-1, 0, 255, 256])
        self.assertEqual(classes_of(names.astype(object), others), ["a", "columns", "long name", "rows"])
        self.assertEqual(classes_of(names, others.astype(object)), ["a", "columns", "long name", "rows"])
        for first, more in ((numpy.float32([0.1, 0.7]), [0.2, 0.3]), (numpy.uint64([0, 1]), [2, 3]), ([0, 1], names),
                            (names, [0, 1]), ([0, 1], [2.5, 3]), ([True, False], [2, 3])):
            with self.assertRaisesRegex(ValueError, "y is of type .*, but the classes that are known of type .*, expected"):
                classes_of(first, more)

    @unittest.skipUnless(sklearn, "scikit-learn is not installed")
    def test_scikit_learn_takes_it(self):
        images, labels = draw(["rows", "columns"], 60)
        classifier = self.classifier(image_shape=(16, 16, 1))
        other = sklearn.base.clone(classifier.fit(images, labels))
        self.assertEqual(other.get_params(), classifier.get_params())
        self.assertFalse(hasattr(other, "model_"))
        self.assertTrue(sklearn.base.is_classifier(classifier))
        self.assertEqual(classifier._estimator_type, "classifier")  # for scikit-learn before 1.6
        table = classifier.predict_proba(images)
        self.assertLess(sklearn.metrics.log_loss(labels, table, labels=classifier.classes_), 0.7)
        rows = images.reshape(60, -1)
        scores = sklearn.model_selection.cross_val_score(classifier, rows, labels, cv=2)
        self.assertGreater(scores.min(), 0.8)
        pipeline = sklearn.pipeline.make_pipeline(sklearn.preprocessing.FunctionTransformer(), classifier)
        self.assertEqual(pipeline.fit(rows, labels).score(rows, labels), 1)
        with self.assertRaises(sklearn.exceptions.NotFittedError):
            other.predict(images)
        for check in ("no_attributes_set_in_init", "parameters_default_constructible", "get_params_invariance",
                      "set_params", "estimator_repr", "estimator_tags_renamed", "valid_tag_types", "mixin_order"):
            if hasattr(checks, f"check_{check}"):  # not each version has all of them
                getattr(checks, f"check_{check}")("Classifier", recollect.Classifier())


# ---- a net in numpy ------------------------------------------------------------------------------------------------

def numpy_convolution(x, weights, stride):
    x = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return numpy.einsum("nchwij,kcij->nkhw", windows, weights)


def torch_convolution(x, weights, stride):
    return torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(weights), stride=stride, padding=1).numpy()


def forward(x, weights, convolution):
    """resnet-small of one block a stage: from normalised images (n, c, h, w) to features."""
    def layer(name, norm, x, stride=1):
        x = convolution(x, weights[f"backbone.{name}.weight"].astype(float), stride)
        mean, variance, scale, shift = (weights[f"backbone.{norm}.{one}"].astype(float)[:, None, None]
                                        for one in ("running_mean", "running_var", "weight", "bias"))
        return (x - mean) / numpy.sqrt(variance + 1e-5) * scale + shift
    x = numpy.maximum(layer("conv_1_3x3", "bn_1", x), 0)
    for stage in (1, 2, 3):
        block, stride = f"stage_{stage}.blocks.0", 1 if stage == 1 else 2
        y = numpy.maximum(layer(f"{block}.conv_a", f"{block}.bn_a", x, stride), 0)
        y = layer(f"{block}.conv_b", f"{block}.bn_b", y)
        skip = x[:, :, ::stride, ::stride]
        x = y + numpy.pad(skip, ((0, 0), (0, y.shape[1] - skip.shape[1]), (0, 0), (0, 0)))
    return x.mean((2, 3))


if __name__ == "__main__":
    unittest.main()
