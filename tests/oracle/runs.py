"""Whole runs of three tasks of rows of the method table: initial values, order and augmentation of every batch,
inversion, main training, refinement, alignment, estimation and evaluation, from random streams and formulas alone. The
C test does the same through the stages as they are, so that every weight, rate, momentum, counter, stream and divisor
that one part hands to another has to be right.

Settings are chosen so that no two of them are equal and none is at a value that hides it. Runs are compared in double
alone: over so many steps a float meets kinks."""
import math

import numpy as np
import torch
import torch.nn.functional as F

import architectures
import philox
from architectures import Net
from fixture import Case, File, f32
from losses import Consistency, PrintedConsistency, smoothing_value, variation_value
from operations import augmented, normals
from rows import Row, total_of

# the random streams of src/cil/step_training.h
AUGMENT, DREAMS, INVERSION, ESTIMATION, ESTIMATION_DREAMS, AUGMENT_REPLAY, LATENT = range(1, 8)
ORDER, HEAD, PROJECTION, REPLAY, RESERVOIR, TARGETS = 16, 17, 18, 20, 21, 22
BACKBONE, GENERATOR, ENCODER, DECODER, PIXELS, JITTER = 0x1000, 0x2000, 0x3000, 0x3800, 0x4000, 0x8000

BUFFERED = ("er", "lode")
ADAPTIVE = ("rdfcil", "cwd", "cwd-without-war", "sce", "ace", "ssil", "wa", "real-hkd", "real-lce")
CONSISTENT = ("cwd", "cwd-without-war", "cwd-abd", "sce", "ace", "ssil", "wa")
REFINED = ("rdfcil", "cwd", "cwd-without-war", "sce", "ace", "ssil", "wa")
WITH_DREAMS = REFINED + ("deepinversion", "abd", "cwd-abd")


class FreshNet(Net):
    """A net as it begins: each layer with weights has a stream of its own, its biases follow its weights."""

    def __init__(self, case, forward, stream, kaiming=False):
        super().__init__(case, forward)
        self.stream, self.kaiming, self.used = stream, kaiming, 0

    def parameter(self, name, shape):
        if name in self.parameters:
            return self.parameters[name]
        if len(shape) >= 2:
            self.stream += self.used
            self.used, count = 1, int(np.prod(shape))
            transposed = name.startswith("deconv")
            inputs = int(np.prod(shape[1:]))
            self.bound, self.weights = 1 / math.sqrt(inputs), count
            if self.kaiming:
                assert not transposed
                deviation = math.sqrt(2 / (shape[0] * np.prod(shape[2:])))
                value = philox.normal(self.case.seed, self.stream, count).astype(np.float32).astype(float) * deviation
            else:
                value = self.uniform(0, count)
        elif ".bn_" in "." + name:
            value = np.full(shape, float(name.endswith(".weight") and not (self.kaiming and ".bn_b." in name)))
        else:
            value = self.uniform(self.weights, shape[0])
        value = torch.from_numpy(value.astype(np.float32).astype(float).reshape(shape))
        self.parameters[name] = value.requires_grad_(self.training)
        return self.parameters[name]

    def uniform(self, first, count):
        u = philox.uniform(self.case.seed, self.stream, count, first).astype(float)
        return (2 * u - 1) * self.bound

    def statistic(self, name, c):
        if name not in self.running:
            self.running[name] = torch.full((c,), float(name.endswith("var")), dtype=torch.float64)
        return self.running[name]

    def copy(self):
        """Frozen, in eval mode."""
        other = Net(self.case, self.forward, training=False)
        other.parameters = {name: p.detach().clone() for name, p in self.parameters.items()}
        other.running = {name: p.clone() for name, p in self.running.items()}
        return other

    def thaw(self):
        self.training = True
        for p in self.parameters.values():
            p.requires_grad_(True)
            p.grad = None


def flat(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


class Reservoir:
    """What ER and LODE hold: images and labels of the stream."""

    def __init__(self, case):
        self.case, self.slots, self.offered = case, [], 0

    def below(self, stream, draw, n):
        high, low = (int(b) for b in philox.bits(self.case.seed, stream, 2, 2 * draw))
        return (high * n + (low * n >> 32)) >> 32

    def offer(self, item):
        slot = self.offered
        if slot >= self.case.buffer_size:
            slot = self.below(RESERVOIR, self.offered, self.offered + 1)
        self.offered += 1
        if slot < len(self.slots):
            self.slots[slot] = item
        elif slot < self.case.buffer_size:
            self.slots.append(item)

    def draw(self, step, count):
        """Places of `count` slots, without repetition while there are enough."""
        left, drawn = list(range(len(self.slots))), []
        for i in range(min(count, len(left))):
            j = i + self.below((self.case.task << 32) + REPLAY, step * count + i, len(left) - i)
            left[i], left[j] = left[j], left[i]
            drawn.append(self.slots[left[i]])
        return [drawn[i % len(drawn)] for i in range(count)]


class Life:
    """What lives from task to task."""

    def __init__(self, case):
        self.case = case
        self.d = 4 * case.width
        self.student = FreshNet(case, architectures.resnet_small(case.width, 1), BACKBONE, kaiming=True)
        self.student.freeze()(torch.zeros(1, case.c, case.size, case.size).double())
        self.head, self.ends = torch.zeros(0, self.d).double(), []
        self.class_mean, self.covariance = None, None
        self.mean, self.std = (case.fill(key, (case.c,), *at).numpy() for key, at in
                               (("mean", (0.25, 0.5)), ("std", (0.125, 0.25))))
        self.images, self.labels = [], []
        self.reservoir = Reservoir(case)
        self.encoder = self.decoder = None
        if case.row == "dgr":
            self.mean, self.std = np.zeros(case.c), np.ones(case.c)
            self.encoder = FreshNet(case, architectures.vae_encoder_of(case.vae_width), ENCODER)
            self.decoder = FreshNet(case, architectures.vae_decoder_of(case.c, case.size, case.vae_width), DECODER)
            self.encoder(torch.zeros(1, case.c, case.size, case.size).double())
            self.decoder(torch.zeros(1, 2 * case.vae_width).double())

    def normalised(self, images):
        return torch.from_numpy((images / 255.0 - self.mean) / self.std).permute(0, 3, 1, 2)


class Task(Row):
    """One task of a run: its batches, its losses, its stages."""

    def __init__(self, life, number, n_new):
        case = self.case = life.case
        self.life, case.task, case.n_old, case.n_new = life, number, len(life.head), n_new
        case.first_task = life.ends[0] if life.ends else 0
        self.d, self.student, self.temperature = life.d, life.student, case.kd_temperature
        count = n_new * case.per_class
        bits = case.bits(f"images-{number}", count * case.size ** 2 * case.c)
        life.labels.append(torch.arange(count) % n_new + case.n_old)
        # noise over a colour that the class has
        colours = (case.bits("colours", 3 * 64) >> np.uint32(25)).astype(float).reshape(64, 1, 1, 3)
        life.images.append((bits >> np.uint32(25)).astype(float).reshape(count, case.size, case.size, case.c) +
                           colours[life.labels[-1].numpy()])
        self.images, self.labels = life.images[-1], life.labels[-1]
        if case.row == "joint":
            self.images, self.labels = np.concatenate(life.images), torch.cat(life.labels)
        self.teacher, self.old_head = life.student.copy(), life.head.detach().clone()
        rows = philox.normal(case.seed, (number << 32) + HEAD, n_new * self.d).astype(np.float32).astype(float)
        rows = torch.from_numpy((rows * 0.001).astype(np.float32).astype(float).reshape(n_new, self.d))
        self.head = torch.cat([self.old_head, rows]).requires_grad_()
        life.ends.append(len(self.head))
        self.counts = torch.zeros(len(self.head))
        self.projections = self.fresh_projections()
        self.per_epoch = max(1, len(self.images) // case.batch)
        self.begin_replay()

    def fresh_projections(self):
        d, parts = self.d, []
        for p in range(2):
            u = philox.uniform(self.case.seed, (self.case.task << 32) + PROJECTION + p, 2 * d * d + 2 * d).astype(float)
            values = torch.from_numpy(((2 * u - 1) / math.sqrt(d)).astype(np.float32).astype(float))
            parts += [values[:2 * d * d].reshape(2 * d, d).requires_grad_(), values[2 * d * d:].requires_grad_()]
        return parts

    def stay_away(self, values):
        """No float is compared."""

    # ---- sources of the second half --------------------------------------------------------------------------------

    def begin_replay(self):
        case, life = self.case, self.life
        self.replays = case.n_old > 0 and case.row not in ("finetune", "joint", "lwf") or case.row in BUFFERED
        self.generator = None
        if case.row.startswith("real-") and case.n_old:
            life.reservoir.slots = list(zip(np.concatenate(life.images[:-1]), torch.cat(life.labels[:-1]).tolist()))
        if case.row == "dgr":
            self.old_decoder = life.decoder.copy() if case.n_old else None

    def order(self, epoch):
        case = self.case
        stream = (case.task << 48) + (epoch << 16) + ORDER
        permutation = philox.permutation(case.seed, stream, len(self.images))
        return [int(permutation[i % len(permutation)]) for i in range(self.per_epoch * case.batch)]

    def batch_at(self, epoch, position):
        """Real images with labels, the replayed half with targets: the old model's logits, or the labels themselves
        where the source knows them and no loss asks for logits."""
        case, life = self.case, self.life
        step = epoch * self.per_epoch + position
        indices = self.order(epoch)[position * case.batch:][:case.batch]
        augment = (life.mean, life.std, case.crop_pad, True)
        real = augmented(case, self.images, *augment, AUGMENT, step, indices).permute(0, 3, 1, 2)
        labels = self.labels[indices]
        if not self.replays:
            return real, labels, real[:0], self.answers(real)
        if case.row in WITH_DREAMS or case.row == "dgr":
            replayed = self.dream(DREAMS, step)
            return real, labels, replayed, self.answers(replayed)
        items = [(self.images[i], int(self.labels[i])) for i in indices]
        if life.reservoir.slots:
            items = life.reservoir.draw(step, case.batch)
        replayed = augmented(case, np.stack([image for image, _ in items]), *augment, AUGMENT_REPLAY, step,
                             range(case.batch)).permute(0, 3, 1, 2)
        if case.row in BUFFERED:
            for i in indices:
                life.reservoir.offer((self.images[i], int(self.labels[i])))
        if case.row in ("real-hkd", "deepinversion-pixels"):
            return real, labels, replayed, self.answers(replayed)
        return real, labels, replayed, F.one_hot(torch.tensor([label for _, label in items]), len(self.head)).double()

    def dream(self, stream, step):
        with torch.no_grad():
            if self.case.row == "dgr":
                return self.old_decoder(normals(self.case, stream, step, self.case.batch, 2 * self.case.vae_width))
            return self.frozen_generator(normals(self.case, stream, step, self.case.batch, self.case.noise))

    # ---- losses of rows that rows.py does not have -----------------------------------------------------------------

    def finetune(self, labels, _):
        self.labels_of_batch = labels
        return {"ce": F.cross_entropy(self.see(self.student(self.real)), labels)}

    joint = finetune

    def rdfcil(self, labels, targets):
        losses = super().rdfcil(labels, targets)
        if self.case.n_new == 1:  # the cross entropy of one logit is constant
            losses["ce"] = F.cross_entropy(self.logits[:self.case.batch], labels)
        return losses

    cwd_without_war = wa = rdfcil

    def war(self):
        return super().war() / (len(self.head) if self.case.paper else 1)

    def real_hkd(self, labels, targets):
        losses = self.rdfcil(labels, targets)
        return {"ce": losses["ce"], "hkd": losses["hkd"]}

    def real_lce(self, labels, targets):
        dreams, losses = self.two_batches(labels)
        return {"ce": losses["ce"], "replay": F.cross_entropy(dreams[:, :self.case.n_old], targets.argmax(1))}

    deepinversion_pixels = Row.deepinversion

    def first(self, labels, targets):
        """Losses of a first task: plain cross entropy, with the buffer's images beside it where there is a buffer."""
        if not self.replays:
            return self.finetune(labels, targets)
        if self.case.row == "er":
            logits = self.see(self.student(self.batch_of_both))
        else:
            logits = self.see(torch.cat([self.student(half) for half in self.batch_of_both.split(self.case.batch)]))
        real, replayed = logits.split(self.case.batch)
        return {"ce": F.cross_entropy(real, labels), "replay": F.cross_entropy(replayed, targets.argmax(1))}

    def losses_of(self, batch):
        if self.case.n_old:
            return self.losses(batch)
        real, labels, replayed, targets = batch
        self.real, self.batch_of_both = real, torch.cat([real, replayed])
        self.labels_of_batch = torch.cat([labels, targets.argmax(1)]) if len(replayed) else labels
        return self.first(labels, targets)

    def weigh(self, refines=False):
        """The weights of the losses, as attributes of the case."""
        case, scale = self.case, {}
        half = 0.5 if case.row in BUFFERED + ("dgr",) and self.replays else 1.0
        if case.row in ADAPTIVE and case.n_old:
            alpha, beta = math.log2(case.n_new / 2 + 1), math.sqrt(case.n_old / case.n_new)
            ce, distillation = ((1 + 1 / alpha) / beta, alpha * beta) if not case.paper else (1.0, 1.0)
            dreams = case.lambda_hkd * distillation
            scale = dict(ce=case.lambda_ce if refines else case.lambda_ce * ce, hkd=dreams, replay=dreams,
                         rkd=case.lambda_rkd * distillation, kd_replay=case.kd_weight * dreams)
        else:
            scale = dict(ce=half, replay=half, kd=case.kd_weight, kd_replay=case.kd_weight, intra=half)
        old_tasks = max(1, len(self.life.ends) - 1)
        scale.update(war=case.lambda_war, head=1.0, feature=case.feature_weight,
                     inter=0.5 * case.lode_rho / old_tasks)
        for name, value in scale.items():
            setattr(case, name, f32(value))

    # ---- inversion -------------------------------------------------------------------------------------------------

    def divergence(self, statistics, form):
        total = 0.0
        for m, v, mean, var in statistics:
            v = v + 1e-8
            if form == "l2":
                total = total + torch.linalg.norm(mean - m) + torch.linalg.norm(var - v)
            else:
                kl = torch.log(v / (var + 1e-8)) + (var + (mean - m) ** 2 + 1e-8) / v - 1
                total = total + 0.5 * kl.mean() / (1 if form == "sum" else len(statistics))
        return total

    def judge(self, images, form):
        self.teacher.statistics = []
        features = self.teacher(images)
        statistics, self.teacher.statistics = self.teacher.statistics, None
        return features, F.linear(features, self.old_head), self.divergence(statistics, form)

    def invert(self):
        case, life = self.case, self.life
        generator = FreshNet(case, architectures.generator(case.c, case.size, 1, case.generator_width,
                                                           case.generator_width // 2), (case.task << 32) + GENERATOR)
        generator(normals(case, INVERSION, 0, case.batch, case.noise))
        generator.running.clear()  # that was a look at its shape
        consistency = None
        if case.row in CONSISTENT:
            form = PrintedConsistency if case.paper else Consistency
            consistency = form(life.class_mean, life.covariance, case.dce_momentum)
        optimiser = torch.optim.Adam(list(generator.parameters.values()), lr=case.inversion_rate,
                                     betas=(f32(0.9), f32(0.999)), eps=f32(1e-8))
        for step in range(case.inversion_steps):
            images = generator(normals(case, INVERSION, step, case.batch, case.noise))
            features, logits, divergence = self.judge(images, "sum" if case.paper else "mean")
            labels, mean = logits.argmax(1), F.softmax(logits, 1).mean(0)
            total = (case.weight_content * F.cross_entropy(logits / case.temperature, labels) +
                     case.weight_bn * divergence + case.weight_prior * smoothing_value(images) +
                     case.weight_diversity * (1 + (mean * torch.log(mean + case.diversity_epsilon)).sum() /
                                              math.log(case.n_old)))
            if consistency:
                total = total + case.lambda_dce * consistency(features, labels)
            optimiser.zero_grad()
            total.backward()
            generator.settle_gradients()
            optimiser.step()
        self.averaged = consistency and not case.paper and bool(consistency.seen.all())
        self.generator, self.frozen_generator = generator, generator.copy()

    def invert_pixels(self):
        """Batches of images, each with an Adam of its own; the last iterates become bytes and are the set to replay."""
        case, life = self.case, self.life
        life.reservoir.slots = []
        shape = (case.c, case.size, case.size, case.batch)
        targets = philox.below(case.seed, (case.task << 32) + TARGETS, case.pixel_batches * case.batch, case.n_old)
        for k in range(case.pixel_batches):
            start = philox.normal(case.seed, (case.task << 32) + PIXELS + k, int(np.prod(shape)))
            pixels = torch.from_numpy(start.astype(np.float32).astype(float).reshape(shape)).requires_grad_()
            optimiser = torch.optim.Adam([pixels], lr=case.pixel_rate, betas=(f32(0.9), f32(0.999)), eps=f32(1e-8))
            labels = torch.from_numpy(targets[k * case.batch:][:case.batch].astype(np.int64))
            for step in range(case.pixel_steps):
                jitter = case.pixel_jitter
                draws = philox.below(case.seed, (case.task << 32) + JITTER + k, 2, 2 * jitter + 1, step << 32)
                moved = torch.roll(pixels.permute(3, 0, 1, 2), [int(d) - jitter for d in draws], (2, 3))
                _, logits, divergence = self.judge(moved, "l2")
                total = (F.cross_entropy(logits, labels) + case.pixel_bn * divergence +
                         case.pixel_variation * variation_value(moved) +
                         case.pixel_norm * torch.linalg.vector_norm(moved))
                optimiser.zero_grad()
                total.backward()
                optimiser.step()
            values = pixels.detach().permute(3, 1, 2, 0).numpy() * life.std + life.mean
            for b in range(case.batch):
                life.reservoir.slots.append((np.floor(np.clip(255 * values[b], 0, 255) + 0.5), int(labels[b])))

    # ---- training --------------------------------------------------------------------------------------------------

    def epochs(self):
        """Of main training and of refinement."""
        case = self.case
        least = -(-case.min_steps // self.per_epoch)
        main = case.epochs - (0 if case.paper else case.refine_epochs)
        refines = case.row in REFINED and case.n_old and not case.paper
        return max(main, least), max(case.refine_epochs, least) if refines else 0

    def train(self):
        case = self.case
        self.student.thaw()
        parameters = list(self.student.parameters.values()) + [self.head] + self.projections
        optimiser = torch.optim.SGD(parameters, lr=1.0, momentum=case.momentum, weight_decay=case.weight_decay)
        self.weigh()
        if case.row == "dgr":
            self.begin_autoencoder()
        main, refinement = self.epochs()
        for epoch in range(main):
            rate = case.learning_rate
            for milestone in (case.milestone_0, case.milestone_1):
                rate *= case.decay if epoch >= milestone else 1
            optimiser.param_groups[0]["lr"] = f32(rate)
            for position in range(self.per_epoch):
                losses = self.losses_of(self.batch_at(epoch, position))
                optimiser.zero_grad()
                total_of(case, losses).backward()
                optimiser.step()
                self.counts += torch.bincount(self.labels_of_batch, minlength=len(self.counts))
                if case.row == "dgr":
                    self.teach_autoencoder(epoch * self.per_epoch + position, f32(rate))
        if refinement:
            self.refine(main, refinement, optimiser)
        self.student.freeze()
        return main + refinement

    def refine(self, main, epochs, optimiser):
        case = self.case
        self.student.freeze()
        for p in list(self.student.parameters.values()) + self.projections:
            p.requires_grad_(False)
            p.grad = None
        optimiser.param_groups[0]["lr"] = case.refine_rate
        self.weigh(refines=True)
        for epoch in range(main, main + epochs):
            weight = self.counts.double().sum() / self.counts.double().clamp(min=1)
            weight = weight / weight.min()
            for position in range(self.per_epoch):
                losses = self.losses_of(self.batch_at(epoch, position))
                losses = {key: value for key, value in losses.items() if key in ("hkd", "replay", "kd_replay", "war")}
                losses["ce"] = F.cross_entropy(self.logits, self.labels_of_batch, weight)
                optimiser.zero_grad()
                total_of(case, losses).backward()
                optimiser.step()
                self.counts += torch.bincount(self.labels_of_batch, minlength=len(self.counts))

    def begin_autoencoder(self):
        case, life = self.case, self.life
        self.autoencoder = torch.optim.SGD(list(life.encoder.parameters.values()) +
                                           list(life.decoder.parameters.values()), lr=1.0, momentum=case.momentum)

    def teach_autoencoder(self, step, rate):
        """Of the whole batch: reconstruction, weighted by the numbers of classes, and the latent term."""
        case, life = self.case, self.life
        images = self.batch_of_both
        share = case.n_old / (case.n_old + case.n_new)
        weight = torch.ones(len(images)).double()
        if case.n_old:
            weight[:case.batch], weight[case.batch:] = f32(1 - f32(share)), f32(share)
        mean, log_variance = life.encoder(images)
        noise = normals(case, LATENT, step, len(images), 2 * case.vae_width)
        decoded = life.decoder(mean + torch.exp(0.5 * log_variance) * noise)
        each = F.binary_cross_entropy(decoded, images, reduction="none").mean((1, 2, 3))
        latent = (-0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum(1)).mean()
        self.autoencoder.param_groups[0]["lr"] = rate
        self.autoencoder.zero_grad()
        ((weight * each).mean() + f32(1 / (case.size ** 2 * case.c)) * latent).backward()
        self.autoencoder.step()

    def align(self):
        norms = self.head.detach().norm(dim=1)
        with torch.no_grad():
            self.head[self.case.n_old:] *= norms[:self.case.n_old].mean() / norms[self.case.n_old:].mean()

    # ---- estimation and evaluation ---------------------------------------------------------------------------------

    def estimate(self, epochs):
        case, life, batch = self.case, self.life, self.case.batch
        order, found, labels = self.order(epochs), [], []
        with torch.no_grad():
            for s in range(self.per_epoch):
                indices = order[s * batch:][:batch]
                found.append(self.student(augmented(case, self.images, life.mean, life.std, case.crop_pad, True,
                                                    ESTIMATION, s, indices).permute(0, 3, 1, 2)))
                labels.append(self.labels[indices])
            times = max(1, case.n_old // case.n_new) if case.n_old else 0
            for s in range(self.per_epoch * times):
                dreams = self.dream(ESTIMATION_DREAMS, s)
                found.append(self.student(dreams))
                labels.append(self.answers(dreams).argmax(1))
        features, labels = torch.cat(found), torch.cat(labels)
        life.class_mean = torch.stack([features[labels == k].mean(0) for k in range(len(self.head))])
        residual = features - life.class_mean[labels]
        residual = residual - residual.mean(0)
        life.covariance = residual.T @ residual / (len(features) - (0 if case.paper else 1))

    def run(self):
        case, life = self.case, self.life
        if case.n_old and case.row in WITH_DREAMS:
            self.invert()
        if case.n_old and case.row == "deepinversion-pixels":
            self.invert_pixels()
        epochs = self.train()
        if case.row == "wa" and case.n_old:
            self.align()
        if case.row in CONSISTENT:
            self.estimate(epochs)
        life.head = self.head.detach()

    def store(self):
        case, life, prefix = self.case, self.life, f"task-{self.case.task}/"
        case.store(prefix + "student.param", flat(self.student.parameters.values()))
        case.store(prefix + "student.running", flat(self.student.running.values()))
        case.store(prefix + "head", self.head)
        if self.generator:
            case.store(prefix + "generator.param", flat(self.generator.parameters.values()))
            case.store(prefix + "generator.running", flat(self.generator.running.values()))
        if case.row in CONSISTENT:
            case.store(prefix + "class_mean", torch.nan_to_num(life.class_mean, nan=-7.0))
            case.store(prefix + "covariance", life.covariance)
        if case.row == "dgr":
            case.store(prefix + "encoder.param", flat(life.encoder.parameters.values()))
            case.store(prefix + "decoder.param", flat(life.decoder.parameters.values()))
        if case.row in BUFFERED:
            images, labels = zip(*life.reservoir.slots)
            case.store(prefix + "buffer.labels", torch.tensor(labels))
            case.store(prefix + "buffer.images", torch.from_numpy(np.stack(images)))

    def evaluate(self):
        """Images of all tasks as they are, neither cropped nor flipped, running statistics."""
        with torch.no_grad():
            logits = F.linear(self.student(self.life.normalised(np.concatenate(self.life.images))), self.head)
        labels, classes = torch.cat(self.life.labels), len(self.head)
        confusion, top5 = torch.zeros(classes, classes), torch.zeros(classes)
        for answer, label in zip(logits, labels):
            confusion[label, answer.argmax()] += 1
            top5[label] += bool((answer.topk(5).indices == label).any())
        self.case.store("logits", logits)
        self.case.store("confusion", confusion)
        self.case.store("top5", top5)


SETTINGS = dict(
    size=14, c=3, width=2, generator_width=4, noise=9, vae_width=8, batch=4, crop_pad=2, per_class=5, epochs=5,
    refine_epochs=2, min_steps=0, learning_rate=0.2, decay=0.3, milestone_0=1, milestone_1=2, refine_rate=0.05,
    momentum=0.8, weight_decay=0.002, lambda_ce=0.6, lambda_hkd=0.17, lambda_rkd=0.45, lambda_war=0.11,
    kd_temperature=1.75, kd_weight=0.7, feature_weight=0.3, buffer_size=7, lode_rho=0.35, inversion_steps=7,
    inversion_rate=0.02, temperature=12.0, weight_content=0.9, weight_diversity=4.0, weight_bn=1.6, weight_prior=0.4,
    lambda_dce=0.21, dce_momentum=0.65, diversity_epsilon=0.003, pixel_batches=2, pixel_steps=4, pixel_jitter=3,
    pixel_rate=0.07, pixel_bn=0.8, pixel_variation=0.015, pixel_norm=0.013, first=2, second=3, third=2, paper=False)


def run(file, row, name=None, seed=8, averaged=False, **settings):
    """`averaged`: the moving average of DCE must have begun before the inversion's last step."""
    case = Case(file, "run/" + (name or row), seed, row=row, **{**SETTINGS, **settings})
    life = Life(case)
    for number, n_new in enumerate((case.first, case.second, case.third)):
        task = Task(life, number, n_new)
        task.run()
        task.store()
        assert not (averaged and number == 1) or task.averaged, "a class was never dreamt of: take another seed"
    task.evaluate()


# Batches and classes beyond the 64 bytes that memory is rounded up to: with too little of it, parts would overlap.
WIDE = dict(batch=24, first=17, second=18, third=2, per_class=2, epochs=3, refine_epochs=1, inversion_steps=3)
SHORT = dict(per_class=3, epochs=3, refine_epochs=1, inversion_steps=2)


def make():
    file = File()
    run(file, "cwd", averaged=True)
    run(file, "cwd", "cwd-paper", paper=True)
    run(file, "cwd-without-war", seed=1, **WIDE)
    run(file, "rdfcil", per_class=3, third=1, min_steps=5, weight_prior=0.0)
    run(file, "ssil", **SHORT)
    run(file, "sce", **SHORT)
    run(file, "ace", **SHORT)
    run(file, "wa", **SHORT)
    run(file, "cwd-abd")
    run(file, "abd", **WIDE)
    run(file, "deepinversion", **SHORT)
    run(file, "deepinversion-pixels", size=8)
    run(file, "lwf", size=8)
    run(file, "finetune", size=8)
    run(file, "joint", size=8)
    run(file, "er", size=8)
    run(file, "lode", size=8)
    run(file, "dgr", size=8)
    run(file, "dgr", "dgr-wide", size=8, **WIDE)
    run(file, "real-hkd", size=8)
    run(file, "real-lce", size=8)
    return file
