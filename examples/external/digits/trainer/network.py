"""A network of one hidden layer in NumPy: images to log-probabilities of classes, in 32-bit floats."""
import numpy


def drawn(seed, values, width, classes):
    """Parameters by a seed (He et al. 2015)."""
    random = numpy.random.Generator(numpy.random.PCG64(seed))

    def matrix(inward, outward):
        return (random.standard_normal((inward, outward)) * numpy.sqrt(2 / inward)).astype("<f4")

    return {"hidden.weight": matrix(values, width), "hidden.bias": numpy.zeros(width, "<f4"),
            "output.weight": matrix(width, classes), "output.bias": numpy.zeros(classes, "<f4")}


def seen(images):
    """Bytes [n, height, width, channels] as rows from 0 to 1."""
    return images.reshape(len(images), -1) / numpy.float32(255)


def forward(p, x):
    """The hidden layer and the log-probabilities of the classes."""
    hidden = numpy.maximum(x @ p["hidden.weight"] + p["hidden.bias"], 0)
    logits = hidden @ p["output.weight"] + p["output.bias"]
    logits = logits - logits.max(1, keepdims=True)
    return hidden, logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))


def step(p, x, labels, rate):
    """A step of gradient descent on the mean loss of a batch, and the sum of the losses before it."""
    hidden, log_probs = forward(p, x)
    rows = numpy.arange(len(x))
    loss = -float(log_probs[rows, labels].sum())
    error = numpy.exp(log_probs)
    error[rows, labels] -= 1
    error *= numpy.float32(rate / len(x))
    back = error @ p["output.weight"].T * (hidden > 0)
    for name, gradient in (("output.weight", hidden.T @ error), ("output.bias", error.sum(0)),
                           ("hidden.weight", x.T @ back), ("hidden.bias", back.sum(0))):
        p[name] -= gradient
    return loss


def epoch(p, x, labels, batch, rate, order):
    """Steps over the examples in an order, and the mean loss of the examples, each before its step."""
    loss = sum(step(p, x[some], labels[some], rate) for some in (order[i:i + batch] for i in range(0, len(order), batch)))
    return loss / len(order)
