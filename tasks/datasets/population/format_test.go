package population

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

func TestIndexRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var extents []Extent
		end := int64(0)
		sequence := rapid.SampledFrom([]int{1, text.SentenceWords, 100, text.MaxSequence}).Draw(t, "sequence")
		for range rapid.IntRange(0, 20).Draw(t, "users") {
			examples := rapid.IntRange(0, 50).Draw(t, "examples")
			words := rapid.IntRange(examples, examples*sequence).Draw(t, "words")
			e := Extent{Offset: end + rapid.Int64Range(0, 1<<40).Draw(t, "gap"), Length: int64(words + examples), Examples: examples, Words: words}
			extents = append(extents, e)
			end = e.Offset + e.Length
		}
		want := indexOf(rapid.Int64Range(1, 1<<30).Draw(t, "shard"), sequence, extents)
		got := must.Get(DecodeIndex(want.Encode()))(t)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for i := range got.Counts().Examples {
			if u, e := got.Find(i); got.First(u)+e != i || e < 0 || e >= got.Extents[u].Examples {
				t.Fatalf("example %d found as number %d of user %d", i, e, u)
			}
		}
	})
}

func TestOverlayRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const canaries = 5
		var want Overlay
		last := Replacement{Example: -1}
		for range rapid.IntRange(0, 20).Draw(t, "replacements") {
			r := Replacement{User: last.User + rapid.IntRange(0, 3).Draw(t, "users"), Canary: rapid.IntRange(0, canaries-1).Draw(t, "canary")}
			r.Example = rapid.IntRange(0, 100).Draw(t, "example")
			if r.User == last.User {
				r.Example += last.Example + 1
			}
			want = append(want, r)
			last = r
		}
		got, err := DecodeOverlay(want.encode(), canaries)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %v (%v), want %v", got, err, want)
		}
		for _, r := range want {
			if !slices.Contains(got.of(r.User), r) {
				t.Fatalf("user %d has %v, without %v", r.User, got.of(r.User), r)
			}
		}
	})
}

// FuzzBlobs decodes arbitrary bytes: an error wraps storage.ErrCorrupt, and a
// decoded value survives encoding and decoding.
func FuzzBlobs(f *testing.F) {
	f.Add(indexOf(8, text.SentenceWords, []Extent{{Offset: 3, Length: 9, Examples: 2, Words: 7}, {Offset: 12}}).Encode())
	f.Add(Overlay{{0, 3, 1}, {0, 4, 0}, {7, 0, 2}}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := DecodeIndex(data)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil {
			if again, err := DecodeIndex(index.Encode()); err != nil || !reflect.DeepEqual(again, index) {
				t.Fatalf("%+v came back as %+v (%v)", index, again, err)
			}
		}
		o, err := DecodeOverlay(data, 3)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil {
			if again, err := DecodeOverlay(o.encode(), 3); err != nil || !slices.Equal(again, o) {
				t.Fatalf("%+v came back as %+v (%v)", o, again, err)
			}
		}
	})
}

// smallShards is a stream of a few bytes a shard, so that everything crosses edges.
func smallShards(t *testing.T, examples [][]int32, perUser, size int) (*taskstest.Graph, *taskstest.Node) {
	t.Helper()
	g := taskstest.NewGraph(t)
	var node *taskstest.Node
	kind := tasks.Kind{Name: "test/shards", Run: func(ctx context.Context, task *tasks.Task) error {
		w := NewPartWriter(ctx, task, Train, text.SentenceWords)
		w.stream.size = size
		for i, words := range examples {
			if err := w.Add(words); err != nil {
				return err
			}
			if (i+1)%perUser == 0 {
				w.EndUser()
			}
		}
		index, err := w.Close()
		if err != nil {
			return err
		}
		return task.Put(ctx, IndexBlob(Train), index.Encode())
	}}
	node = g.Run(kind, struct{}{})
	return g, node
}

func TestReadersJoinExamplesAcrossShards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var examples [][]int32
	for range 60 {
		words := make([]int32, 1+rng.IntN(text.SentenceWords))
		for i := range words {
			words[i] = text.FirstWord + rng.Int32N(1000)
		}
		examples = append(examples, words)
	}
	for _, size := range []int{1, 2, 7, 50, 1000, 1 << 20} {
		g, node := smallShards(t, examples, 6, size)
		task := g.Task(taskstest.In("parts", node))
		p := must.Get(OpenPart(t.Context(), task, "parts", Train))(t)
		sentences, err := p.ReadRecords(t.Context(), 0, p.Records())
		if err != nil {
			t.Fatalf("shards of %d bytes: %v", size, err)
		}
		for i, words := range examples {
			if want := text.Frame(nil, words, text.SentenceWords); !slices.Equal(sentences[i], want) {
				t.Fatalf("shards of %d bytes: example %d is %v, want %v", size, i, sentences[i], want)
			}
		}
		scan := Scan(t.Context(), task, "parts", Train, p.index)
		for i := 0; i < len(examples); i += 6 {
			scan.skipTo(p.index.Extents[i/6].Offset)
			if got, err := ReadExample(scan, nil, text.SentenceWords, maxToken); err != nil || !slices.Equal(got, examples[i]) {
				t.Fatalf("shards of %d bytes: scan found %v (%v), want %v", size, got, err, examples[i])
			}
		}
	}
}

func TestDamagedShardsAreReportedAsCorrupt(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte){
		"count too high": func(b []byte) { b[0] = 200 },
		"count too low":  func(b []byte) { b[0]-- },
		"no end":         func(b []byte) { b[len(b)-1] |= 0x80 },
	} {
		g, node := smallShards(t, [][]int32{{4, 5, 6}, {7, 8}}, 2, 1<<20)
		damage(node.Blobs[ShardBlob(Train, 0)])
		p := must.Get(OpenPart(t.Context(), g.Task(taskstest.In("parts", node)), "parts", Train))(t)
		if _, err := p.ReadUser(t.Context(), 0); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "user 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGroupsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	good := encodeGroups([]uint32{0, 1, 0})
	if groups, err := decodeGroups(good, 3); err != nil || !slices.Equal(groups, []uint32{0, 1, 0}) {
		t.Errorf("the groups are %v, %v", groups, err)
	}
	for _, bad := range [][]byte{nil, good[:len(good)-1], append(slices.Clone(good), 0), encodeGroups([]uint32{0, 1}), encodeGroups([]uint32{0, 3, 0})} {
		if groups, err := decodeGroups(bad, 3); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%q is read as %v, %v", bad, groups, err)
		}
	}
}

// Over 4000 shuffles of 4 records, each place of each record has a share of 1/4.
// Pearson's statistic with 9 degrees of freedom exceeds 40 with probability 8e-6.
func TestShuffleIsUniform(t *testing.T) {
	t.Parallel()
	const n, rounds = 4, 4000
	var counts [n][n]float64
	rng := rand.New(rand.NewPCG(42, 42))
	for range rounds {
		places := must.Get(shuffledPlaces(rng, n))(t)
		for i, p := range places {
			counts[i][p]++
		}
	}
	statistic := 0.0
	for i := range counts {
		for _, c := range counts[i] {
			statistic += (c - rounds/n) * (c - rounds/n) / (rounds / n)
		}
	}
	if statistic > 40 {
		t.Errorf("chi-squared %.1f: %v", statistic, counts)
	}
}

func TestUserCacheForgetsTheOldest(t *testing.T) {
	t.Parallel()
	var c userCache
	for u := range 10 {
		c.put(u, [][]int32{{int32(u)}}, cacheTokens/4)
	}
	for u := range 10 {
		if _, ok := c.users[u]; ok != (u >= 6) {
			t.Errorf("user %d kept: %v", u, ok)
		}
	}
}
