"""Whole steps of R-DFCIL/CwD: inversion, main training and head refinement, with batches
and noise from the same random streams as in C."""
import math

import numpy as np
import torch
import torch.nn.functional as F

import architectures
import philox
from architectures import Net
from fixture import Case, File
from losses import Consistency, angles, smoothing_value
from operations import augmented, normals, random_images

# the random streams of src/cil/step_training.h
STREAM_AUGMENT, STREAM_DREAMS, STREAM_INVERSION = 1, 2, 3


def nets_of(case):
    """The forward functions of classifier and generator that the case names."""
    if case.width:
        return (architectures.resnet_small(case.width, case.blocks),
                architectures.generator(case.c, case.size, 1, case.generator_width, case.generator_width // 2))
    return architectures.resnet32, architectures.generator(case.c, case.size, *architectures.GENERATORS[case.size])


def features_of(case):
    return 4 * case.width if case.width else 64


def assert_far_from_zero(*values):
    """Absolute values and maxima must not turn by rounding either: rarely do they, so a seed is right or wrong."""
    for value in values:
        assert value.abs().min() > 1e-5 * value.square().mean().sqrt(), "near a kink: take another seed"


def gap(logits):
    """By how much the largest logit wins."""
    best = logits.topk(2, dim=1).values
    return best[:, 0] - best[:, 1]


# ---- main training -------------------------------------------------------------------------------------------------

class Training:
    """Student, teacher, generator, head, projections and the batches of a task after the first."""

    def __init__(self, case):
        self.case, self.d = case, features_of(case)
        classifier, generator = nets_of(case)
        self.student = Net(case, classifier, "student/")
        self.teacher = Net(case, classifier, "teacher/", training=False)
        self.generator = Net(case, generator, "generator/", training=False)
        classes, d = case.n_old + case.n_new, self.d
        self.head = case.parameter("student/head.weight", (classes, d)).requires_grad_()
        self.old_head = case.parameter("teacher/head.weight", (case.n_old, d))
        bound = 1 / math.sqrt(d)
        shapes = {"weight": (2 * d, d), "bias": (2 * d,)}
        self.projections = [case.fill(f"projection/{p}.{part}", shapes[part], bound).requires_grad_()
                            for p in ("student", "teacher") for part in shapes]
        self.images, self.mean, self.std = random_images(case, case.count, case.size, case.size, case.c)
        self.labels = case.integers("labels", case.count, case.n_new) + case.n_old
        self.order = philox.permutation(case.seed, case.order, case.count)
        self.counts = torch.zeros(classes)

    def batch(self, step):
        """Real images with labels; dreams with the teacher's logits, whose argmax are their labels."""
        case = self.case
        indices = self.order[step * case.batch:][:case.batch]
        real = augmented(case, self.images, self.mean, self.std, case.pad, True, STREAM_AUGMENT, step, indices)
        noise = normals(case, STREAM_DREAMS, step, case.batch, case.noise)
        with torch.no_grad():
            dreams = self.generator(noise)
            targets = F.linear(self.teacher(dreams), self.old_head)
        return (real.permute(0, 3, 1, 2), self.labels[indices.astype(np.int64)], dreams, targets)

    def losses(self, batch):
        """Unweighted losses."""
        case, (real, labels, dreams, targets) = self.case, batch
        features, dream_features = self.student(real), self.student(dreams)
        logits, dream_logits = F.linear(features, self.head), F.linear(dream_features, self.head)
        student = F.linear(features, self.projections[0], self.projections[1])
        with torch.no_grad():
            teacher_features = self.teacher(real)
        teacher = F.linear(teacher_features, self.projections[2], self.projections[3])
        difference = angles(student) - angles(teacher)
        away = dream_logits[:, :case.n_old] - targets
        norms = self.head.norm(dim=1)
        old, new = norms[:case.n_old], norms[case.n_old:]
        losses = {
            "ce": F.cross_entropy(logits[:, case.n_old:], labels - case.n_old),
            "hkd": away.abs().mean(),
            "rkd": difference.abs().mean(),
            "war": (old - new.mean()).abs().sum() + (new - old.mean()).abs().sum(),
        }
        different = ~torch.eye(case.batch, dtype=torch.bool)
        triples = different[:, :, None] & different[:, None, :] & different[None, :, :]
        assert_far_from_zero(away, gap(targets), difference[triples])
        self.features = torch.cat([features, dream_features])
        self.logits = torch.cat([logits, dream_logits])
        return losses

    def count(self, batch):
        labels = torch.cat([batch[1], batch[3].argmax(1)])
        self.counts += torch.bincount(labels, minlength=len(self.counts))
        return labels


def store_training_gradients(case, training, losses, batch):
    case.store_map("dreams", batch[2])
    case.store("labels", torch.cat([batch[1], batch[3].argmax(1)]))
    case.store("features", training.features)
    case.store("logits", training.logits)
    case.store("teacher_logits", batch[3])
    for name, value in losses.items():
        case.store("loss/" + name, value)
    for name, p in training.student.parameters.items():
        case.store("student/gradient/" + name, p.grad)
    case.store("head/gradient", training.head.grad)
    # the projections' biases cancel in the differences of embeddings: their gradients are rounding alone
    case.store("projection/gradient/student.weight", training.projections[0].grad)
    case.store("projection/gradient/teacher.weight", training.projections[2].grad)


def train(case, training):
    """Main training steps; returns the optimiser of everything."""
    factors = {name: getattr(case, name) for name in ("ce", "hkd", "rkd", "war")}
    begin, optimiser = None, None
    for step in range(case.steps):
        batch = training.batch(step)
        losses = training.losses(batch)
        if optimiser is None:
            parameters = {"student/moved/" + name: p for name, p in training.student.parameters.items()}
            parameters["head/moved"] = training.head
            parameters["projection/moved/student.weight"] = training.projections[0]
            parameters["projection/moved/teacher.weight"] = training.projections[2]
            begin = {name: p.detach().clone() for name, p in parameters.items()}
            optimiser = torch.optim.SGD(list(training.student.parameters.values()) + [training.head] +
                                        training.projections, lr=case.lr, momentum=case.momentum,
                                        weight_decay=case.weight_decay)
        optimiser.zero_grad()
        sum(factors[name] * value for name, value in losses.items()).backward()
        if step == 0:
            store_training_gradients(case, training, losses, batch)
        optimiser.step()
        training.count(batch)
        case.store(f"total-{step}", sum(factors[name] * value for name, value in losses.items()))
    for name, p in parameters.items():
        case.store(name, p.detach() - begin[name])
    # weight decay alone moves these, by less than a float can tell as a difference
    case.store("projection/after/student.bias", training.projections[1])
    case.store("projection/after/teacher.bias", training.projections[3])
    for name, value in training.student.running.items():
        case.store("student/running/" + name, value)
    case.store("counts", training.counts)
    return optimiser


def refine(case, training, optimiser):
    """Head refinement: class-balanced cross entropy over both halves, HKD, WAR; all but the head is frozen."""
    training.student.freeze()
    for projection in training.projections:
        projection.requires_grad_(False)
        projection.grad = None
    for p in training.student.parameters.values():
        p.grad = None
    weight = training.counts.double().sum() / training.counts.double().clamp(min=1)
    weight = weight / weight.min()
    case.store("class_weight", weight)
    optimiser.param_groups[0]["lr"] = case.refine_lr
    begin = training.head.detach().clone()
    for step in range(case.steps, case.steps + case.refine_steps):
        batch = training.batch(step)
        losses = training.losses(batch)
        labels = torch.cat([batch[1], batch[3].argmax(1)])
        balanced = F.cross_entropy(training.logits, labels, weight)
        optimiser.zero_grad()
        (case.refine_ce * balanced + case.hkd * losses["hkd"] + case.war * losses["war"]).backward()
        optimiser.step()
        training.count(batch)
        case.store(f"refine/ce-{step}", balanced)
        case.store(f"refine/hkd-{step}", losses["hkd"])
        case.store(f"refine/war-{step}", losses["war"])
    case.store("refine/moved", training.head.detach() - begin)
    case.store("refine/counts", training.counts)


def training(file, name, n_old, n_new, seed=1, **settings):
    alpha, beta = math.log2(n_new / 2 + 1), math.sqrt(n_old / n_new)
    settings = dict(settings, n_old=n_old, n_new=n_new, task=2, pad=4, order=99, count=6 * settings["batch"],
                    ce=0.5 * (1 + 1 / alpha) / beta, hkd=0.15 * alpha * beta, rkd=0.5 * alpha * beta, war=0.1, lr=0.02,
                    momentum=0.9, weight_decay=5e-4, refine_lr=0.005, refine_ce=0.5)
    case = Case(file, "training/" + name, seed, **settings)
    first = Training(case)
    real, _, dreams, _ = first.batch(0)
    first.student.avoid_kinks(torch.cat([real, dreams]), [case.batch, case.batch])
    state = Training(case)
    optimiser = train(case, state)
    if case.refine_steps:
        refine(case, state, optimiser)


# ---- inversion -----------------------------------------------------------------------------------------------------

class Inversion:
    def __init__(self, case):
        self.case = case
        classifier, generator = nets_of(case)
        d = features_of(case)
        self.classifier = Net(case, classifier, "classifier/", training=False)
        self.generator = Net(case, generator, "generator/")
        self.head = case.parameter("classifier/head.weight", (case.classes, d))
        upper = case.fill("covariance", (d, d), 0.25).triu()
        self.consistency = Consistency(case.fill("class_mean", (case.classes, d)), upper + upper.triu(1).T,
                                       case.dce_momentum)

    def noise(self, step):
        return normals(self.case, STREAM_INVERSION, step, self.case.batch, self.case.noise)

    def losses(self, step):
        case = self.case
        images = self.generator(self.noise(step))
        self.classifier.statistics = []
        features = self.classifier(images)
        logits = F.linear(features, self.head)
        labels = logits.argmax(1)
        assert_far_from_zero(gap(logits))
        mean = F.softmax(logits, 1).mean(0)
        divergence = 0.0
        for m, v, stored_mean, stored_var in self.classifier.statistics:
            v = v + 1e-8
            kl = torch.log(v / (stored_var + 1e-8)) + (stored_var + (stored_mean - m) ** 2 + 1e-8) / v - 1
            divergence = divergence + 0.5 * kl.mean() / len(self.classifier.statistics)
        self.seen = {"images": images, "features": features, "logits": logits, "labels": labels}
        return {
            "content": F.cross_entropy(logits / case.temperature, labels),
            "diversity": 1 + (mean * torch.log(mean + case.epsilon)).sum() / math.log(case.classes),
            "bn": divergence,
            "prior": smoothing_value(images),
            "dce": self.consistency(features, labels),
        }


def invert(file, name, classes, seed=1, **settings):
    settings = dict(settings, classes=classes, task=2, temperature=1000.0, epsilon=1e-6, dce_momentum=0.9, content=1.0,
                    diversity=1.0, bn=50.0, dce=0.05, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8)
    case = Case(file, "inversion/" + name, seed, **settings)
    first = Inversion(case)
    images = first.generator.avoid_kinks(first.noise(0))
    first.classifier.avoid_kinks(images)
    state = Inversion(case)
    generator, optimiser, begin = state.generator, None, {}
    for step in range(case.steps):
        losses = state.losses(step)
        if optimiser is None:
            begin = {name: p.detach().clone() for name, p in generator.parameters.items()}
            optimiser = torch.optim.Adam(list(generator.parameters.values()), lr=case.lr,
                                         betas=(case.beta1, case.beta2), eps=case.eps)
        optimiser.zero_grad()
        total = sum(getattr(case, key) * value for key, value in losses.items())
        total.backward()
        generator.settle_gradients()
        if step == 0:
            case.store_map("images", state.seen["images"])
            for key in "features", "logits", "labels":
                case.store(key, state.seen[key])
            for key, value in losses.items():
                case.store("loss/" + key, value)
            for key, p in generator.parameters.items():
                case.store("generator/gradient/" + key, p.grad)
        case.store(f"total-{step}", total)
        optimiser.step()
    for key, p in generator.parameters.items():
        case.store("generator/moved/" + key, p.detach() - begin[key])
    for key, value in generator.running.items():
        case.store("generator/running/" + key, value)


def make():
    """Small nets, for every backend; large.py has the others."""
    file = File()
    small = dict(size=16, c=3, width=8, blocks=1, generator_width=8, noise=20)
    training(file, "small", 5, 3, batch=8, steps=3, refine_steps=2, **small)
    invert(file, "small", 3, batch=8, steps=3, prior=0.001, **small)
    return file
