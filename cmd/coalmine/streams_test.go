package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

const streamsPage = "../../docs/random-streams.md"

// The page gives vectors, so that other programs can be held against them. They
// equal the draws of the code, and every stream has one.
func TestVectorsOfThePageMatchDraws(t *testing.T) {
	t.Parallel()
	page := contentOf(t, streamsPage)
	block := regexp.MustCompile("(?s)```vectors\n(.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatalf("%s has no vectors", streamsPage)
	}
	drawn := drawnVectors(t)
	for line := range strings.Lines(block[1]) {
		expression, values, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		if got, known := drawn[expression]; !known || got != values {
			t.Errorf("%s stands there as\n%s\ndrawn is\n%s", expression, values, got)
		}
		delete(drawn, expression)
	}
	for expression, values := range drawn {
		t.Errorf("missing on the page:\n%s = %s", expression, values)
	}
}

// drawnVectors are the vectors by the expression of docs/checks/check_streams.py.
func drawnVectors(t *testing.T) map[string]string {
	stream := seeds.Stream
	ordinary, alphabet, wide, noise := stream(1, seeds.Canaries), stream(1, seeds.Canaries), stream(1, seeds.Canaries), stream(7, seeds.Noise, 2)
	return map[string]string{
		`key(1, "client", 3, 5)`:                                                      clientKey(t),
		`draws(3, stream(1, "initial weights").uint64)`:                               some(3, stream(1, seeds.Weights).Uint64),
		`draws(3, stream(1, "client", 3, 5).uint64)`:                                  some(3, stream(1, seeds.Client, 3, 5).Uint64),
		`draws(126, stream(7, "noise", 2).uint64)[122:]`:                              spaced(drawn(126, noise.Uint64)[122:]),
		`draws(8, stream(1, "canaries").below, 2000)`:                                 some(8, func() int { return ordinary.IntN(2000) }),
		`draws(8, stream(1, "canaries").below, 256)`:                                  some(8, func() int { return alphabet.IntN(256) }),
		`draws(4, stream(1, "canaries").below, 3 * 2**62)`:                            some(4, func() uint64 { return wide.Uint64N(3 << 62) }),
		`draws(4, stream(1, "test part").float64)`:                                    some(4, stream(1, seeds.TestPart).Float64),
		`draws(4, stream(1, "noise", 1).normal)`:                                      some(4, stream(1, seeds.Noise, 1).NormFloat64),
		`digest(draws(20000, stream(1, "noise", 1).normal))`:                          digest32(drawn(20000, stream(1, seeds.Noise, 1).NormFloat64)),
		`placed(stream(5, "projection", 2), range(1, 12), 10)`:                        spaced(placed()),
		`stream(1, "held-out users").permutation(10)`:                                 spaced(stream(1, seeds.HeldOutUsers).Perm(10)),
		`cohort(stream(1, "cohort", 1), 20, 5, "fixed-size")`:                         spaced(cohortOf(t, privacy.FixedSize)),
		`cohort(stream(1, "cohort", 1), 20, 5, "poisson")`:                            spaced(cohortOf(t, privacy.Poisson)),
		`sum(references(stream(1, "references", 2), 4, [range(4, 104)] * 2, []), ())`: spaced(referencesOf(t)),
		`Stream(secret_key(bytes(range(32)), "a training", "noise", 7)).uint64()`:     some(1, secretStream("a training", 7).Uint64),
	}
}

// placed is twice the projection of the numbers from 1 to 11.
func placed() []int {
	var x [11]float32
	for i := range x {
		x[i] = float32(i + 1)
	}
	var out [10]float32
	updates.Project(5, 2, x[:], out[:])
	var twice []int
	for _, v := range out {
		twice = append(twice, int(2*v))
	}
	return twice
}

// clientKey is the key of a stream, put together as the page says.
func clientKey(t *testing.T) string {
	t.Helper()
	text := []byte("coalmine stream\x00client\x00")
	for _, n := range []uint64{1, 3, 5} {
		text = binary.LittleEndian.AppendUint64(text, n)
	}
	key := sha256.Sum256(text)
	if rand.NewChaCha8(key).Uint64() != seeds.Stream(1, seeds.Client, 3, 5).Uint64() {
		t.Error("a stream has another key than the page says")
	}
	return hex.EncodeToString(key[:])
}

func drawn[T any](n int, draw func() T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = draw()
	}
	return out
}

func some[T any](n int, draw func() T) string { return spaced(drawn(n, draw)) }

// spaced writes numbers as the page has them.
func spaced[T any](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
		if x, ok := any(v).(float64); ok {
			texts[i] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	return strings.Join(texts, " ")
}

// digest32 is the SHA-256 of numbers in float32.
func digest32(values []float64) string {
	h := sha256.New()
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func cohortOf(t *testing.T, sampling privacy.Sampling) []int {
	t.Helper()
	users := must.Get(training.Cohort(&training.ClientsParams{Cohort: 5, Sampling: sampling}, 1, 20, func(round int) (*rand.Rand, error) {
		return seeds.Stream(1, seeds.Cohort, uint64(round)), nil
	}))(t)
	return users
}

func referencesOf(t *testing.T) []int32 {
	t.Helper()
	p := randomsampling.Params{Seed: 1, References: 4, Space: canaries.Space{Words: 3}, Prefix: 1}
	rows := must.Get(p.DrawReferences(t.Context(), nil, 100, nil))(t)
	var tokens []int32
	for row := range rows {
		tokens = append(tokens, row...)
	}
	return tokens
}

func secretStream(context string, round uint64) *rand.Rand {
	var secret [32]byte
	for i := range secret {
		secret[i] = byte(i)
	}
	return rand.New(rand.NewChaCha8(seeds.SecretStreamKey(secret, context, seeds.Noise, round)))
}

// The digest on the page holds the branches that are hardly ever taken, too.
func TestVectorsReachNormalTail(t *testing.T) {
	t.Parallel()
	normals := drawn(20_000, seeds.Stream(1, seeds.Noise, 1).NormFloat64)
	if largest := slices.Max(normals); largest < 3.442619855899 {
		t.Errorf("the largest is %v: no draw is in the tail", largest)
	}
}
