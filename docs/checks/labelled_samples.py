"""Labels images of a gan, and classifies real images by the labelled ones: task T5 of Augenstein et al. 2020.

    coalmine data export RUN CELL --only parts -o DIR
    coalmine sample RUN CELL --seed 1 --count 2000 -o DIR/images
    python3 docs/checks/labelled_samples.py DIR ...

In place of people, the nearest real image of the training part labels each image of the gan. A real image of the test part is then
classified by the nearest image of the training part, the nearest labelled image of the gan, and the nearest of a random part of the training
images, as many as those of the gan. A line for each DIR has the shares that these and the most frequent digit classify correctly, and the numbers
of the gan's images with the rarest and the most frequent label. It needs PyTorch and NumPy.
"""
import glob
import sys

import numpy

from check_data import FIRST_WORD, rows
from check_images import png


def part(examples, name):
    """The images of a part, each a vector of 784 values, and their labels."""
    tokens = numpy.array([row["tokens"] for row in examples if row["part"] == name]) - FIRST_WORD
    return tokens[:, 2:].astype(numpy.float32), tokens[:, 1]


def nearest(images, others, labels):
    """The label of the nearest of the others, of each image."""
    return labels[((others ** 2).sum(1) - 2 * images @ others.T).argmin(1)]


def main(folders):
    print("training part,labelled samples,as many real images,most frequent digit,least label,most label")
    for folder in folders:
        examples = rows(folder, "parts")
        images, labels = part(examples, "train")
        real, digits = part(examples, "test")
        made = numpy.array([png(path).ravel() for path in sorted(glob.glob(f"{folder}/images/*.png"))], dtype=numpy.float32)
        given = nearest(made, images, labels)
        some = numpy.random.default_rng(1).permutation(len(images))[:len(made)]
        told = [nearest(real, images, labels), nearest(real, made, given), nearest(real, images[some], labels[some]), numpy.bincount(labels).argmax()]
        counts = numpy.bincount(given, minlength=10)
        print(*[float((digits == by).mean()) for by in told], counts.min(), counts.max(), sep=",", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
