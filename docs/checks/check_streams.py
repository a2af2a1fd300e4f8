"""Draws Coalmine's random streams again, from docs/random-streams.md alone.

    python3 docs/checks/check_streams.py [PAGE ...]

compares the vectors of the page, this folder's random-streams.md if none is named,
with what is drawn here. It needs the standard library only. check_data.py uses it
to draw the data of a run again.
"""
import hashlib
import hmac
import math
import os
import re
import struct
import sys

LOW = sum(0xFFFFFFFF << 64 * block for block in range(16))  # the word of each block in its slot of 64 bits
ONES = sum(1 << 64 * block for block in range(16))


def key(seed, role, *indices):
    """The ChaCha8 key of a stream."""
    numbers = struct.pack(f"<{1 + len(indices)}Q", seed, *indices)
    return hashlib.sha256(b"coalmine stream\0" + role.encode() + b"\0" + numbers).digest()


def secret_key(secret, context, role, *indices):
    """The same for a stream under a secret key of 32 bytes."""
    text = b"coalmine secret stream\0" + context.encode() + b"\0" + role.encode() + b"\0"
    return hmac.new(secret, text + struct.pack(f"<{len(indices)}Q", *indices), hashlib.sha256).digest()


def rotate(x, n):
    return (x << n | x >> 32 - n) & LOW


def quarter(x, a, b, c, d):
    for left, right, n in ((a, b, 16), (c, d, 12), (a, b, 8), (c, d, 7)):
        x[left] = x[left] + x[right] & LOW
        other = d if left == a else b
        x[other] = rotate(x[other] ^ x[left], n)


def sixteen_blocks(key):
    """The words of ChaCha8 blocks 0 to 15, [word][block], all blocks at once."""
    start = [ONES * word for word in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key))]
    start += [sum(block << 64 * block for block in range(16)), 0, 0, 0]
    x = start[:]
    for _ in range(4):
        for i in range(4):
            quarter(x, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    x[4:12] = [a + b & LOW for a, b in zip(x[4:12], start[4:12])]  # only the key is added again
    return [struct.unpack("<16Q", word.to_bytes(128, "little")) for word in x]


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def ziggurat():
    """The tables of Marsaglia and Tsang 2000 with 128 strips."""
    edge, area = 3.442619855899, 9.91256303526217e-3
    base = area / math.exp(-0.5 * edge * edge)
    k, w, f = [0] * 128, [0.0] * 128, [0.0] * 128
    k[0], w[0], f[0] = int(edge / base * 2**31), base / 2**31, 1.0
    w[127], f[127] = edge / 2**31, math.exp(-0.5 * edge * edge)
    x = edge
    for i in range(126, 0, -1):
        above, x = x, math.sqrt(-2 * math.log(area / x + math.exp(-0.5 * x * x)))
        k[i + 1], w[i], f[i] = int(x / above * 2**31), x / 2**31, math.exp(-0.5 * x * x)
    return k, [float32(v) for v in w], [float32(v) for v in f]


K, W, F = ziggurat()
EDGE = 3.442619855899


class Stream:
    """The numbers of one stream, as the methods of Go's math/rand/v2 draw them."""

    def __init__(self, key):
        self.key, self.ahead = key, []

    def uint64(self):
        if not self.ahead:
            words = sixteen_blocks(self.key)
            for first in range(0, 16, 4):
                for word in words:
                    self.ahead += [word[first] | word[first + 1] << 32, word[first + 2] | word[first + 3] << 32]
            self.key = struct.pack("<4Q", *self.ahead[-4:])
            self.ahead = self.ahead[-5::-1]
        return self.ahead.pop()

    def below(self, n):
        """A whole number below n: IntN, Int32N, Uint64N."""
        if n & n - 1 == 0:
            return self.uint64() & n - 1
        while True:
            product = self.uint64() * n
            if product % 2**64 >= 2**64 % n:
                return product >> 64

    def float64(self):
        return (self.uint64() & 2**53 - 1) / 2**53

    def normal(self):
        while True:
            u = self.uint64()
            j, i = (u & 0xFFFFFFFF ^ 2**31) - 2**31, u >> 32 & 0x7F
            x = j * W[i]
            if abs(j) < K[i]:
                return x
            if i == 0:
                while True:
                    x = -math.log(self.float64()) * (1 / EDGE)
                    y = -math.log(self.float64())
                    if y + y >= x * x:
                        return EDGE + x if j > 0 else -EDGE - x
            height = float32(float32(self.float64()) * float32(F[i - 1] - F[i]))
            if float32(F[i] + height) < float32(math.exp(-0.5 * x * x)):
                return x

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items

    def permutation(self, n):
        return self.shuffle(list(range(n)))


def stream(seed, role, *indices):
    return Stream(key(seed, role, *indices))


def draws(n, draw, *arguments):
    return [draw(*arguments) for _ in range(n)]


def digest(values):
    """The SHA-256 of numbers in float32, which no last bit of a logarithm changes."""
    return hashlib.sha256(struct.pack(f"<{len(values)}f", *values)).digest()


def cohort(rng, population, size, sampling):
    """The users of a round, ascending."""
    if sampling == "poisson":
        return [user for user in range(population) if rng.float64() < size / population]
    drawn = set()
    for top in range(population - size, population):
        user = rng.below(top + 1)
        drawn.add(top if user in drawn else user)
    return sorted(drawn)


def references(rng, count, choices, excluded, complete=tuple):
    """Random sequences, of the choices for each place, but for those excluded."""
    for _ in range(count):
        row = None
        while row is None or row in excluded:
            row = complete([among[rng.below(len(among))] for among in choices])
        yield row


def placed(rng, elements, values):
    """Twice the projection of a layer to a number of values: each element in one place of each block."""
    sums, edges = [0] * values, [block * values // 4 for block in range(5)]
    for element in elements:
        numbers = [rng.uint64(), rng.uint64()]
        for block in range(4):
            bits, size = numbers[block // 2] >> 32 * (block % 2) & 0xffffffff, edges[block + 1] - edges[block]
            sums[edges[block] + ((bits >> 1) * size >> 31)] += -element if bits & 1 else element
    return sums


def text(value):
    if isinstance(value, bytes):
        return value.hex()
    return " ".join(str(v) for v in (value if isinstance(value, (list, tuple)) else [value]))


def check(page):
    """Vectors stand in code blocks: an expression of this file, " = ", values."""
    vectors = re.findall(r"^(\S.*) = (.+)$", "".join(re.findall(r"^```vectors\n(.*?)^```", open(page).read(), re.M | re.S)), re.M)
    wrong = [f"{left} is {text(eval(left))}, not {right}" for left, right in vectors if text(eval(left)) != right]
    print("\n".join(wrong) or f"{page}: all {len(vectors)} vectors are drawn again")
    return vectors and not wrong


if __name__ == "__main__":
    pages = sys.argv[1:] or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "random-streams.md")]
    sys.exit(0 if all([check(page) for page in pages]) else 1)
