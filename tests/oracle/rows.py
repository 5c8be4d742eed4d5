"""Whole steps of rows of the method table, each written as its source has it: R-DFCIL and CwD, LwF, DeepInversion, ABD
with its second pass, CwD(ABD), the debiasing variants SCE, ACE and SS-IL, and ER, LODE and DGR's classifier, with dreams
where they have what they stored; and cwd+ with all that can be added to it and to new images."""
import math

import numpy as np
import torch
import torch.nn.functional as F

import philox
from fixture import Case, File
from losses import angles
from operations import augmented, mixed, turned_label, varied
from steps import STREAM_AUGMENT, Training, assert_far_from_zero, gap

TEMPERATURE = 2.0
BATCH = 6
DRAWN = 16  # features of every class
STREAM_MIX, STREAM_VARY, STREAM_TURNED = 10, 11, 25  # of src/cil/step_training.h


def distillation(student, teacher, temperature):
    """Softened teacher against as many first classes of the student's softmax."""
    log = F.log_softmax(student / temperature, 1)[:, :teacher.shape[1]]
    return -(F.softmax(teacher / temperature, 1) * log).sum(1).mean()


class Row(Training):
    """A step of a row: Training's models and batches, losses of its own."""
    temperature = TEMPERATURE

    def losses(self, batch):
        real, labels, dreams, targets = batch
        self.real, self.labels_of_batch = real, torch.cat([labels, targets.argmax(1)])
        self.batch_of_both = torch.cat([real, dreams])
        self.stay_away(gap(targets))
        return getattr(self, self.case.row.replace("-", "_").replace("+", "_plus"))(labels, targets)

    def see(self, features):
        """Logits of the student; the batch's results are kept for the fixture."""
        self.features, self.logits = features, F.linear(features, self.head)
        return self.logits

    def stay_away(self, values):
        """From the places where rounding decides."""
        assert_far_from_zero(values)

    def answers(self, images):
        with torch.no_grad():
            return F.linear(self.teacher(images), self.old_head)

    # ---- new images that change -----------------------------------------------------------------------------------

    def batch(self, step):
        """The same batch out of varied bytes, mixed in pairs; refinement, behind the steps, neither turns nor mixes."""
        plain = super().batch(step)
        case, trains = self.case, step < self.case.steps
        if not case.strong:
            return plain
        classes, indices = case.n_old + case.n_new, self.order[step * case.batch:][:case.batch]
        images, turns = zip(*(varied(case, self.images[i].astype(int), STREAM_VARY, step, b, True, trains)
                              for b, i in enumerate(indices)))
        real = augmented(case, np.stack(images).astype(np.float64), self.mean, self.std, case.pad, True, STREAM_AUGMENT,
                         step, range(case.batch))
        real, self.share = mixed(case, real, STREAM_MIX, step, trains)
        self.turned = torch.tensor([turned_label(classes, case.n_old, int(y), t) for y, t in zip(plain[1], turns)])
        self.partner = self.turned[[b ^ 1 for b in range(case.batch)]]
        return (real.permute(0, 3, 1, 2), *plain[1:])

    def add_turned_head(self):
        """Three rows more for every new class."""
        rows = 3 * self.case.n_new
        normal = philox.normal(self.case.seed, (self.case.task << 32) + STREAM_TURNED, rows * self.d).astype(np.float32)
        weight = (normal.astype(np.float64) * 0.001).astype(np.float32).astype(np.float64).reshape(rows, self.d)
        self.turned_head = torch.from_numpy(weight).requires_grad_()

    def cwd_plus(self, labels, targets):
        case = self.case
        losses = self.cwd(labels, targets)
        real, dreams = self.logits.split(case.batch)
        with torch.no_grad():
            teacher = self.teacher(self.batch_of_both)
        away = F.linear(self.features, self.old_head) - F.linear(teacher, self.old_head)
        old = [half[:, :case.n_old] for half in (real, dreams)]
        drawn = F.linear(case.fill("drawn", (DRAWN * len(self.head), self.d)), self.head)
        local = torch.cat([real[:, case.n_old:], F.linear(self.features[:case.batch], self.turned_head)], 1)
        each = [F.cross_entropy(local, y - case.n_old, reduction="none", label_smoothing=case.smoothing)
                for y in (self.turned, self.partner)]
        return dict(losses, ce=(self.share * each[0] + (1 - self.share) * each[1]).mean(),
                    kd=distillation(old[0], self.answers(self.real), self.temperature),
                    kd_replay=distillation(old[1], targets, self.temperature),
                    replay=F.cross_entropy(old[1], targets.argmax(1)),
                    feature=away.square().sum(1).mean() / case.n_old,
                    drawn=F.cross_entropy(drawn, torch.arange(len(drawn)) % len(self.head)))

    # ---- rows ------------------------------------------------------------------------------------------------------

    def lwf(self, labels, _):
        logits = self.see(self.student(self.real))
        self.labels_of_batch = labels
        return {"ce": F.cross_entropy(logits, labels),
                "kd": distillation(logits[:, :self.case.n_old], self.answers(self.real), self.temperature)}

    def deepinversion(self, labels, targets):
        logits = self.see(self.student(self.batch_of_both))
        real, dreams = logits.split(self.case.batch)
        return {"ce": F.cross_entropy(real, labels),
                "kd": distillation(real[:, :self.case.n_old], self.answers(self.real), self.temperature),
                "kd_replay": distillation(dreams, targets, self.temperature)}

    def abd(self, labels, _):
        case = self.case
        share = case.n_old / (case.n_old + case.n_new)
        weight = torch.where(self.labels_of_batch < case.n_old, share, 1 - share)
        logits = self.see(self.student(self.batch_of_both))
        with torch.no_grad():  # the second pass; it moves the running statistics
            again = self.student(self.batch_of_both)
            teacher = self.teacher(self.batch_of_both)
        local = F.cross_entropy(logits[:case.batch, case.n_old:], labels - case.n_old, reduction="none")
        head = F.cross_entropy(F.linear(again, self.head), self.labels_of_batch, reduction="none")
        away = F.linear(self.features, self.old_head) - F.linear(teacher, self.old_head)
        return {"ce": (weight[:case.batch] * local).mean(), "head": (weight * head).mean(),
                "feature": away.square().sum(1).mean() / case.n_old}

    def cwd_abd(self, labels, targets):
        return dict(self.abd(labels, targets), war=self.war())

    def two_batches(self, labels):
        """Local cross entropy and relations of real samples, dreams apart: what the debiasing variants share."""
        case = self.case
        real, dreams = self.batch_of_both.split(case.batch)
        features = self.student(real)
        logits = self.see(torch.cat([features, self.student(dreams)]))
        with torch.no_grad():
            teacher_features = self.teacher(real)
        difference = (angles(F.linear(features, self.projections[0], self.projections[1])) -
                      angles(F.linear(teacher_features, self.projections[2], self.projections[3])))
        different = ~torch.eye(case.batch, dtype=torch.bool)
        self.stay_away(difference[different[:, :, None] & different[:, None, :] & different[None, :, :]])
        return logits[case.batch:], {
            "ce": F.cross_entropy(logits[:case.batch, case.n_old:], labels - case.n_old),
            "rkd": difference.abs().mean()}

    def rdfcil(self, labels, targets):
        dreams, losses = self.two_batches(labels)
        away = dreams[:, :self.case.n_old] - targets
        self.stay_away(away)
        return dict(losses, hkd=away.abs().mean())

    def war(self):
        norms = self.head.norm(dim=1)
        old, new = norms[:self.case.n_old], norms[self.case.n_old:]
        return (old - new.mean()).abs().sum() + (new - old.mean()).abs().sum()

    def cwd(self, labels, targets):
        return dict(self.rdfcil(labels, targets), war=self.war())

    def sce(self, labels, targets):
        dreams, losses = self.two_batches(labels)
        return dict(losses, replay=F.cross_entropy(dreams[:, :self.case.n_old], targets.argmax(1)))

    def ace(self, labels, targets):
        dreams, losses = self.two_batches(labels)
        return dict(losses, replay=F.cross_entropy(dreams, targets.argmax(1)))

    def ssil(self, labels, targets):
        dreams, losses = self.two_batches(labels)
        divergence, first = 0.0, 0
        for end in (self.case.first_task, self.case.n_old):
            divergence = divergence + self.temperature ** 2 * F.kl_div(
                F.log_softmax(dreams[:, first:end] / self.temperature, 1),
                F.softmax(targets[:, first:end] / self.temperature, 1), reduction="batchmean")
            first = end
        return dict(losses, replay=F.cross_entropy(dreams[:, :self.case.n_old], targets.argmax(1)),
                    kd_replay=divergence)

    def er(self, labels, targets):
        logits = self.see(self.student(self.batch_of_both))
        mean = F.cross_entropy(logits, self.labels_of_batch)  # as the source has it: one mean over both
        real, replayed = logits.split(self.case.batch)
        losses = {"ce": F.cross_entropy(real, labels), "replay": F.cross_entropy(replayed, targets.argmax(1))}
        assert abs(total_of(self.case, losses) - mean) < 1e-12
        return losses

    def lode(self, labels, targets):
        case = self.case
        real, replayed = self.batch_of_both.split(case.batch)
        logits = self.see(torch.cat([self.student(real), self.student(replayed)]))
        real, replayed = logits.split(case.batch)
        sides = torch.stack([real[:, :case.n_old].logsumexp(1), real[:, case.n_old:].logsumexp(1)], 1)
        intra = real.clone()
        intra[:, :case.n_old] = -1e9
        return {"inter": F.cross_entropy(sides, torch.ones_like(labels)), "intra": F.cross_entropy(intra, labels),
                "replay": F.cross_entropy(replayed, targets.argmax(1))}

    def dgr(self, labels, targets):
        case = self.case
        share = case.n_old / (case.n_old + case.n_new)
        logits = self.see(self.student(self.batch_of_both))
        weight = torch.where(self.labels_of_batch < case.n_old, share, 1 - share)
        each = weight * F.cross_entropy(logits, self.labels_of_batch, reduction="none")
        return {"ce": each[:case.batch].mean(), "replay": each[case.batch:].mean(),
                "kd_replay": distillation(logits[case.batch:, :case.n_old], targets, self.temperature)}


def total_of(case, losses):
    return sum(getattr(case, name) * value for name, value in losses.items())


def train(case, state):
    """Steps of main training; what the first found, and where the last has led."""
    begin, optimiser, parameters = None, None, None
    for step in range(case.steps):
        losses = state.losses(state.batch(step))
        losses.pop("drawn", None)  # of refinement alone
        if optimiser is None:
            parameters = {"student/moved/" + name: p for name, p in state.student.parameters.items()}
            parameters["head/moved"] = state.head
            begin = {name: p.detach().clone() for name, p in parameters.items()}
            more = (state.projections if "rkd" in losses else []) + ([state.turned_head] if case.strong else [])
            optimiser = torch.optim.SGD(list(parameters.values()) + more,
                                        lr=case.lr, momentum=case.momentum, weight_decay=case.weight_decay)
        optimiser.zero_grad()
        total = total_of(case, losses)
        total.backward()
        if step == 0:
            case.store("labels", state.labels_of_batch)
            if not case.strong:  # whose rows are longer
                case.store("logits", state.logits)
            else:
                case.store("turned/gradient", state.turned_head.grad)
            for name, value in losses.items():
                case.store("loss/" + name, value)
            for name, p in state.student.parameters.items():
                case.store("student/gradient/" + name, p.grad)
            case.store("head/gradient", state.head.grad)
        optimiser.step()
        state.counts += torch.bincount(state.labels_of_batch, minlength=len(state.counts))
        case.store(f"total-{step}", total)
    for name, p in parameters.items():
        case.store(name, p.detach() - begin[name])
    for name, value in state.student.running.items():
        case.store("student/running/" + name, value)
    return optimiser


def refine(case, state, optimiser):
    """One step of refinement: class-balanced cross entropy, the row's losses of dreams, and WAR; the head alone moves."""
    state.student.freeze()
    for p in list(state.student.parameters.values()) + state.projections + ([state.turned_head] if case.strong else []):
        p.requires_grad_(False)
        p.grad = None
    weight = state.counts.double().sum() / state.counts.double().clamp(min=1)
    optimiser.param_groups[0]["lr"] = case.refine_lr
    begin = state.head.detach().clone()
    losses = state.losses(state.batch(case.steps))
    losses = {name: value for name, value in losses.items() if name in ("replay", "kd_replay", "hkd", "war", "drawn")}
    balanced = F.cross_entropy(state.logits, state.labels_of_batch, weight / weight.min())
    optimiser.zero_grad()
    (case.refine_ce * balanced + total_of(case, losses)).backward()
    optimiser.step()
    case.store("refine/ce", balanced)
    for name, value in losses.items():
        case.store("refine/" + name, value)
    case.store("refine/moved", state.head.detach() - begin)


def row(file, name, groups, seed=1, refined=False, strong=False, **weights):
    case = Case(file, "row/" + name, seed, row=name, size=14, c=3, width=4, blocks=1, generator_width=8, noise=20,
                n_old=5, first_task=3, n_new=3, task=2, batch=BATCH, steps=2, pad=4, order=99, count=3 * BATCH, lr=0.02,
                momentum=0.9, weight_decay=5e-4, refined=refined, strong=strong, refine_lr=0.005,
                refine_ce=0.5, **weights)
    first = Row(case)
    real, _, dreams, _ = first.batch(0)
    first.student.avoid_kinks(torch.cat([real, dreams])[:sum(groups)], groups)
    state = Row(case)
    if strong:
        state.add_turned_head()
    optimiser = train(case, state)
    if refined:
        refine(case, state, optimiser)


def make():
    """Weights as the stages set them with the default settings."""
    file = File()
    alpha, beta = math.log2(3 / 2 + 1), math.sqrt(5 / 3)
    adaptive = dict(ce=0.5 * (1 + 1 / alpha) / beta, rkd=0.5 * alpha * beta, replay=0.15 * alpha * beta)
    abd = dict(ce=1.0, head=1.0, feature=0.1)
    row(file, "lwf", [BATCH], ce=1.0, kd=1.0)
    row(file, "deepinversion", [2 * BATCH], ce=1.0, kd=1.0, kd_replay=1.0)
    row(file, "abd", [2 * BATCH], **abd)
    row(file, "cwd-abd", [2 * BATCH], war=0.1, **abd)
    row(file, "sce", [BATCH, BATCH], **adaptive)
    row(file, "ace", [BATCH, BATCH], **adaptive)
    row(file, "ssil", [BATCH, BATCH], refined=True, kd_replay=adaptive["replay"], **adaptive)
    row(file, "er", [2 * BATCH], ce=0.5, replay=0.5)
    row(file, "lode", [BATCH, BATCH], inter=0.5 * 0.05 / 2, intra=0.5, replay=0.5)
    row(file, "dgr", [2 * BATCH], ce=0.5, replay=0.5, kd_replay=1.0)
    flagship = dict(ce=adaptive["ce"], rkd=adaptive["rkd"], hkd=adaptive["replay"], refined=True)
    row(file, "rdfcil", [BATCH, BATCH], **flagship)
    row(file, "cwd", [BATCH, BATCH], war=0.1, **flagship)
    plus = alpha * beta
    row(file, "cwd+", [BATCH, BATCH], strong=True, war=0.1, kd=0.5 * plus, kd_replay=0.25 * plus, replay=0.125 * plus,
        feature=0.375 * plus, drawn=2.0, smoothing=0.125, cutout=5, mixup=1.0, cutmix=1.0, **flagship)
    return file
