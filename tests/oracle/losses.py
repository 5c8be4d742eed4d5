"""The losses of the methods as PyTorch would write them, differentiated by autograd.

Every case has a weight: what is stored of a gradient is weight * gradient, of a value the value alone.
"""
import math

import torch
import torch.nn.functional as F

from fixture import Case, File


def finish(case, value, **leaves):
    """Stores the value and the gradients of the leaves."""
    gradients = torch.autograd.grad(case.weight * value, list(leaves.values()))
    case.store("value", value)
    for key, gradient in zip(leaves, gradients):
        case.store("d" + key, gradient)


def logits_of(case, name="logits", rows=None, stride=None, scale=3.0):
    """Rows of `stride` logits, of which a loss looks at some."""
    return case.fill(name, (rows or case.n, stride or case.stride), scale).requires_grad_()


# ---- cross entropy ------------------------------------------------------------------------------------------------

def cross_entropy(file, name, n=11, stride=9, first=0, count=9, temperature=1.0, weights="none", weight=0.7,
                  smoothing=0.0, mixed=False):
    case = Case(file, "ce/" + name, n=n, stride=stride, first=first, count=count, temperature=temperature,
                weights=weights, weight=weight, smoothing=smoothing, mixed=mixed)
    logits, labels = logits_of(case), case.integers("labels", n, count)
    class_weight = None if weights == "none" else case.fill("class_weight", (stride,), 0.75, 1.0)
    inside = logits[:, first:first + count] / case.temperature
    if mixed or (smoothing and weights != "none"):
        # each label's own cross entropy, smoothed, times its class weight; a mixed row has two of them
        partner = case.integers("partner", n, count) if mixed else labels
        share = case.fill("share", (n,), 0.5, 0.5) if mixed else torch.ones(n).double()
        w = class_weight if class_weight is not None else torch.ones(stride).double()
        each = [F.cross_entropy(inside, y, reduction="none", label_smoothing=smoothing) for y in (labels, partner)]
        parts = share * w[first + labels], (1 - share) * w[first + partner]
        value = (parts[0] * each[0] + parts[1] * each[1]).sum()
        value = value / ((parts[0] + parts[1]).sum() if weights == "weighted-mean" else n)
    elif smoothing:
        value = F.cross_entropy(inside, labels, label_smoothing=smoothing)
    elif weights == "none":
        value = F.cross_entropy(inside, labels)
    elif weights == "weighted-mean":
        value = F.cross_entropy(inside, labels, class_weight[first:first + count])
    else:
        value = (class_weight[first + labels] * F.cross_entropy(inside, labels, reduction="none")).mean()
    finish(case, value, logits=logits)


def decoupled(file, name, n, stride, n_old, count, weight, intra_weight):
    """LODE: two-way cross entropy of [LSE old, LSE new] with target new, and cross entropy among the new."""
    case = Case(file, "decoupled/" + name, n=n, stride=stride, n_old=n_old, count=count, weight=weight,
                intra_weight=intra_weight)
    logits, labels = logits_of(case), case.integers("labels", n, count - n_old)
    old, new = logits[:, :n_old], logits[:, n_old:count]
    two = torch.stack([old.logsumexp(1), new.logsumexp(1)], 1)
    inter = F.cross_entropy(two, torch.ones(n, dtype=torch.long))
    intra = F.cross_entropy(new, labels)
    gradient, = torch.autograd.grad(case.weight * inter + case.intra_weight * intra, logits)
    case.store("inter", inter)
    case.store("intra", intra)
    case.store("dlogits", gradient)


# ---- distillation -------------------------------------------------------------------------------------------------

def hkd(file, name, n, n_old, stride, teacher_stride, weight=0.5):
    case = Case(file, "hkd/" + name, n=n, n_old=n_old, stride=stride, teacher_stride=teacher_stride, weight=weight)
    logits, teacher = logits_of(case), logits_of(case, "teacher", stride=teacher_stride)
    finish(case, F.l1_loss(logits[:, :n_old], teacher[:, :n_old].detach()), logits=logits)


def kd(file, name, n=6, student_stride=12, first=0, student_count=7, teacher_stride=7, teacher_first=0, teacher_count=7,
       temperature=2.0, kl=False, t_squared=False, weight=1.5):
    case = Case(file, "kd/" + name, **{k: v for k, v in locals().items() if k not in ("file", "name")})
    logits = logits_of(case, stride=student_stride)
    teacher = logits_of(case, "teacher", stride=teacher_stride).detach()
    log_q = F.log_softmax(logits[:, first:first + student_count] / temperature, 1)
    p = F.softmax(teacher[:, teacher_first:teacher_first + teacher_count] / temperature, 1)
    target = F.pad(p, (0, student_count - teacher_count))
    value = F.kl_div(log_q, target, reduction="batchmean") if kl else -(target * log_q).sum(1).mean()
    finish(case, value * (temperature ** 2 if t_squared else 1), logits=logits)


def feature(file, name, n, d, n_old, weight=0.1):
    """ABD: the old head, applied to features of student and teacher; mean over samples and outputs."""
    case = Case(file, "feature/" + name, n=n, d=d, n_old=n_old, weight=weight)
    features, teacher = case.fill("features", (n, d)).requires_grad_(), case.fill("teacher", (n, d))
    head, bias = case.fill("head", (n_old, d)), case.fill("bias", (n_old,))
    finish(case, F.mse_loss(F.linear(features, head, bias), F.linear(teacher, head, bias)), features=features)


def angles(e):
    """<u_ij, u_ik> of all triples, u_ij = normalise(e_j - e_i), as published: n^3 entries."""
    u = F.normalize(e.unsqueeze(0) - e.unsqueeze(1), p=2, dim=2)
    return torch.bmm(u, u.transpose(1, 2))


def rkd(file, name, n, d, weight=1.75, apart=1.0, **more):
    case = Case(file, "rkd/" + name, n=n, d=d, weight=weight, apart=apart, **more)
    student = case.fill("student", (n, d), apart, 2.0 * (apart < 1)).requires_grad_()
    teacher = case.fill("teacher", (n, d)).requires_grad_()
    finish(case, (angles(student) - angles(teacher)).abs().mean(), student=student, teacher=teacher)


def war(file, name, classes, n_old, d, paper, weight=0.1):
    case = Case(file, "war/" + name, classes=classes, n_old=n_old, d=d, paper=paper, weight=weight)
    head = case.fill("head", (classes, d)).requires_grad_()
    norms = head.norm(dim=1)
    old, new = norms[:n_old], norms[n_old:]
    value = (old - new.mean()).abs().sum() + (new - old.mean()).abs().sum()
    finish(case, value / classes if paper else value, head=head)


# ---- consistency of dreams ----------------------------------------------------------------------------------------

class Consistency:
    """DCE with its running statistics."""

    def __init__(self, class_mean, covariance, momentum):
        self.class_mean, self.covariance, self.momentum = class_mean, covariance, momentum
        classes, d = class_mean.shape
        self.mean, self.running_covariance = torch.zeros(classes, d).double(), torch.zeros(d, d).double()
        self.seen = torch.zeros(classes, dtype=torch.bool)

    def __call__(self, features, labels):
        present = [k for k in range(len(self.seen)) if (labels == k).any()]
        means = {k: features[labels == k].mean(0) for k in present}
        residual = torch.cat([features[labels == k] - means[k] for k in present])
        residual = residual - residual.mean(0)
        covariance = residual.T @ residual / (len(features) - 1)
        keep = self.momentum if self.seen.all() else 0.0
        means = {k: keep * self.mean[k] + (1 - keep) * means[k] for k in present}
        covariance = keep * self.running_covariance + (1 - keep) * covariance
        known = [k for k in present if not self.class_mean[k].isnan().any()]
        difference = torch.stack([self.class_mean[k] - means[k] for k in known])
        value = torch.linalg.norm(difference) + torch.linalg.norm(self.covariance - covariance)
        for k in present:
            self.mean[k] = means[k].detach()
        self.running_covariance = covariance.detach()
        self.seen[labels] = True
        return value


class PrintedConsistency:
    """DCE as printed: a norm per class, divisor n, batch statistics."""

    def __init__(self, class_mean, covariance, momentum):
        self.class_mean, self.covariance = class_mean, covariance

    def __call__(self, features, labels):
        present = sorted(set(labels.tolist()))
        means = {k: features[labels == k].mean(0) for k in present}
        residual = torch.cat([features[labels == k] - means[k] for k in present])
        covariance = residual.T @ residual / len(features)
        value = sum(torch.linalg.norm(self.class_mean[k] - means[k]) for k in present
                    if not self.class_mean[k].isnan().any())
        return value + torch.linalg.norm(self.covariance - covariance)


def dce(file, name, n=24, d=6, classes=5, momentum=0.9, paper=False, steps=6, late=3, late_step=2, absent=1, nan=2,
        weight=0.05):
    """Class `late` first appears in step `late_step`, so that the moving average begins in the one after; class
    `absent` is missing in step 4; class `nan` has no stored mean."""
    case = Case(file, "dce/" + name, **{k: v for k, v in locals().items() if k not in ("file", "name")})
    class_mean = case.fill("class_mean", (classes, d))
    if nan >= 0:
        class_mean[nan] = math.nan
    upper = case.fill("covariance", (d, d)).triu()
    loss = (PrintedConsistency if paper else Consistency)(class_mean, upper + upper.triu(1).T, case.momentum)
    for step in range(steps):
        features = case.fill(f"features-{step}", (n, d), 1.0 + 0.25 * step).requires_grad_()
        labels = dce_labels(case, step)
        value = loss(features, labels)
        gradient, = torch.autograd.grad(case.weight * value, features)
        case.store(f"value-{step}", value)
        case.store(f"dfeatures-{step}", gradient)
        if not paper:
            case.store(f"mean-{step}", loss.mean)
            case.store(f"covariance-{step}", loss.running_covariance)


def dce_labels(case, step):
    """Every class once, the others at random; a class that must be missing is replaced by class 0."""
    labels = case.integers(f"labels-{step}", case.n, case.classes)
    labels[:case.classes] = torch.arange(case.classes)
    if step < case.late_step and case.late >= 0:
        labels[labels == case.late] = 0
    if step == 4 and case.absent >= 0:
        labels[labels == case.absent] = 0
    return labels


def batch_statistics(file, name, form, weight=50.0):
    case = Case(file, "bn/" + name, form=form, layers=3, weight=weight)
    total, leaves = 0.0, {}
    for layer in range(case.layers):
        c = 3 + 5 * layer
        mean = case.fill(f"mean-{layer}", (c,)).requires_grad_()
        var = case.fill(f"var-{layer}", (c,), 0.5, 0.75).requires_grad_()
        stored_mean = case.fill(f"running_mean-{layer}", (c,))
        stored_var = case.fill(f"running_var-{layer}", (c,), 0.5, 0.75)
        leaves[f"mean-{layer}"], leaves[f"var-{layer}"] = mean, var
        v = var + 1e-8
        if form == "l2":
            total = total + (stored_mean - mean).norm() + (stored_var - v).norm()
        else:
            kl = torch.log(v / (stored_var + 1e-8)) + (stored_var + (stored_mean - mean) ** 2 + 1e-8) / v - 1
            total = total + 0.5 * kl.mean()
    finish(case, total / case.layers if form == "kl" else total, **leaves)


def diversity(file, name, n=13, classes=8, stride=10, epsilon=1e-6, scale=3.0, weight=1.0):
    case = Case(file, "diversity/" + name, n=n, classes=classes, stride=stride, epsilon=epsilon, scale=scale,
                weight=weight)
    logits = logits_of(case, scale=scale)
    mean = F.softmax(logits[:, :classes], 1).mean(0)
    finish(case, 1 + (mean * torch.log(mean + case.epsilon)).sum() / math.log(classes), logits=logits)


# ---- images and latent codes --------------------------------------------------------------------------------------

def smoothing_value(x):
    """Mean squared difference to the image smoothed by a 5x5 kernel, weights ~ exp(-(d/2)^2), reflected borders."""
    taps = torch.exp(-((torch.arange(5, dtype=torch.float64) - 2) / 2) ** 2)
    taps = taps / taps.sum()
    kernel = torch.outer(taps, taps).expand(x.shape[1], 1, 5, 5)
    return F.mse_loss(x, F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel, groups=x.shape[1]))


def variation_value(x):
    return ((x[:, :, :, :-1] - x[:, :, :, 1:]).norm() + (x[:, :, :-1] - x[:, :, 1:]).norm() +
            (x[:, :, :-1, :-1] - x[:, :, 1:, 1:]).norm() + (x[:, :, :-1, 1:] - x[:, :, 1:, :-1]).norm())


def image(file, name, loss, n, h, w, c, weight):
    case = Case(file, f"image/{name}", loss=loss, n=n, h=h, w=w, c=c, weight=weight)
    x = case.fill("x", (n, h, w, c)).requires_grad_()
    values = {"smoothing": smoothing_value, "variation": variation_value, "norm": torch.linalg.vector_norm}
    finish(case, values[loss](x.permute(0, 3, 1, 2)), x=x)


def reconstruction(file, name, weighted, n=4, h=5, w=6, c=3, weight=1.0):
    case = Case(file, "reconstruction/" + name, weighted=weighted, n=n, h=h, w=w, c=c, weight=weight)
    x = case.fill("x", (n, h, w, c), 0.4375, 0.5).requires_grad_()
    target = case.fill("target", (n, h, w, c), 0.5, 0.5)
    each = F.binary_cross_entropy(x, target, reduction="none").mean((1, 2, 3))
    finish(case, (each * case.fill("sample_weight", (n,), 0.5, 1.0)).mean() if weighted else each.mean(), x=x)


def latent(file, name, n, c, scale, weight=1.0):
    """The KL term, and a sample with its gradients."""
    case = Case(file, "latent/" + name, n=n, c=c, scale=scale, weight=weight)
    mean, log_variance = (case.fill(key, (n, c)).requires_grad_() for key in ("mean", "log_variance"))
    kl = (-0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum(1)).mean()
    finish(case, case.scale * kl, mean=mean, log_variance=log_variance)
    z = mean + torch.exp(0.5 * log_variance) * case.fill("noise", (n, c), 2.0)
    gradients = torch.autograd.grad((z * case.fill("g", (n, c))).sum(), (mean, log_variance))
    case.store("z", z)
    case.store("sample_dmean", gradients[0])
    case.store("sample_dlog_variance", gradients[1])


# ---- statistics ---------------------------------------------------------------------------------------------------

def class_statistics(file, name, n, d, classes, absent, batches, unbiased, centered):
    """Class means and tied covariance; the sums come in batches, the features sit far from the origin."""
    case = Case(file, "statistics/" + name, n=n, d=d, classes=classes, absent=absent, batches=batches,
                unbiased=unbiased, centered=centered)
    features = torch.cat([case.fill(f"features-{i}", (n, d), 1.0, 2.0) for i in range(batches)])
    labels = torch.cat([case.integers(f"labels-{i}", n, classes) for i in range(batches)])
    labels[labels == absent] = 0
    means = torch.stack([features[labels == k].mean(0) for k in range(classes)])
    residual = features - means[labels]
    residual = residual - residual.mean(0)
    case.store("mean", torch.nan_to_num(means, nan=-7.0))
    case.store("covariance", residual.T @ residual / (len(features) - unbiased))


def softmax(file, name, n, classes, stride):
    case = Case(file, "softmax/" + name, n=n, classes=classes, stride=stride)
    logits = logits_of(case, scale=8.0)[:, :classes]
    case.store("probabilities", F.softmax(logits, 1))
    case.store("labels", logits.argmax(1))


def balance(file, name, classes, n):
    """Of head refinement: total / max(count, 1), divided by the smallest."""
    case = Case(file, "balance/" + name, classes=classes, n=n)
    count = torch.bincount(case.integers("labels", n, classes), minlength=classes + 1).double()  # one never seen
    weight = count.sum() / count.clamp(min=1)
    case.store("count", count)
    case.store("weight", weight / weight.min())


def make():
    file = File()
    cross_entropy(file, "all")
    cross_entropy(file, "local", n=8, stride=12, first=5, count=7)
    cross_entropy(file, "old", n=8, stride=12, first=0, count=5)
    cross_entropy(file, "content", n=32, stride=20, count=20, temperature=1000.0)
    cross_entropy(file, "weights", weights="mean")
    cross_entropy(file, "weights-local", n=8, stride=12, first=5, count=7, weights="mean", temperature=2.0)
    cross_entropy(file, "weighted-mean", weights="weighted-mean", weight=0.5)
    cross_entropy(file, "large", n=128, stride=100, count=100)
    cross_entropy(file, "smoothing", smoothing=0.125)
    cross_entropy(file, "smoothing-local", n=8, stride=12, first=5, count=7, smoothing=0.5, temperature=2.0)
    cross_entropy(file, "mixed", mixed=True)
    cross_entropy(file, "mixed-smoothing-local", n=8, stride=12, first=5, count=7, mixed=True, smoothing=0.25)
    cross_entropy(file, "mixed-weights", weights="mean", mixed=True, smoothing=0.25)
    cross_entropy(file, "mixed-weighted-mean", weights="weighted-mean", mixed=True)
    decoupled(file, "first", n=10, stride=14, n_old=4, count=10, weight=0.05, intra_weight=1.0)
    decoupled(file, "later", n=33, stride=100, n_old=60, count=100, weight=0.3, intra_weight=0.7)
    hkd(file, "small", n=5, n_old=4, stride=9, teacher_stride=4)
    hkd(file, "large", n=64, n_old=40, stride=60, teacher_stride=41)
    kd(file, "lwf")
    kd(file, "beyond", student_count=12)
    kd(file, "kl", kl=True)
    kd(file, "task", first=3, student_count=4, teacher_stride=9, teacher_first=3, teacher_count=4, kl=True,
       t_squared=True)
    kd(file, "large", n=64, student_stride=60, student_count=60, teacher_stride=40, teacher_count=40)
    feature(file, "small", n=5, d=7, n_old=3)
    feature(file, "large", n=40, d=64, n_old=20)
    rkd(file, "small", n=5, d=4)
    rkd(file, "medium", n=16, d=24)
    rkd(file, "large", n=37, d=128)
    rkd(file, "near", n=12, d=10, apart=2.0 ** -10)
    rkd(file, "three", n=3, d=3)
    for paper in False, True:
        form = "printed" if paper else "code"
        war(file, form, 10, 4, 6, paper)
        war(file, form + "-large", 60, 40, 64, paper)
        war(file, form + "-pair", 2, 1, 5, paper)
    dce(file, "code")
    dce(file, "no-average", momentum=0.0)
    dce(file, "all-known", late=-1, absent=-1, nan=-1, classes=3, n=10)
    dce(file, "never-all", late_step=99, classes=7, n=30, d=9, momentum=0.75)
    dce(file, "printed", paper=True)
    dce(file, "large", n=64, d=64, classes=20)
    for form in "kl", "kl-sum", "l2":
        batch_statistics(file, form, form)
    diversity(file, "cwd")
    diversity(file, "rdfcil", epsilon=0.0)
    diversity(file, "sharp", epsilon=1e-6, scale=20.0, n=6)
    diversity(file, "large", n=128, classes=80, stride=80)
    for h, w in (3, 3), (8, 6), (32, 32):
        image(file, f"smoothing-{h}x{w}", "smoothing", 2, h, w, 3, 0.75)
        image(file, f"variation-{h}x{w}", "variation", 2, h, w, 3, 0.25)
    image(file, "norm", "norm", 3, 6, 7, 3, 0.5)
    image(file, "smoothing-grey", "smoothing", 2, 28, 28, 1, 0.001)
    reconstruction(file, "plain", False)
    reconstruction(file, "weighted", True)
    latent(file, "small", 3, 10, 1.0)
    latent(file, "vae", 4, 300, 1.0 / 3072.0)
    class_statistics(file, "code", 40, 6, 5, 3, 3, True, True)
    class_statistics(file, "printed", 40, 6, 5, -1, 1, False, False)
    class_statistics(file, "large", 64, 64, 10, -1, 4, True, True)
    softmax(file, "small", 7, 5, 9)
    softmax(file, "large", 50, 100, 100)
    balance(file, "small", 5, 40)
    return file
