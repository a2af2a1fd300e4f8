package population

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/registry"
	"coalmine/internal/seeds"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks"
)

// Partition makes the population that trains, canaries included.
//
// ByUser keeps the balanced users: a view of the training stream, no data is written. IID shuffles
// all their examples together with the canaries on them and fills synthetic users from the shuffled
// records, each until it has Words words or more; the last, if it stays short, is dropped (Thakkar
// et al. 2020, sections 4.1 and 4.3). With Words 0 synthetic user u gets the number of examples of
// balanced user u, so that users keep their sizes and no example is left over.
//
// Params: PartitionParams. Inputs: "balanced": Balance; "parts": Encode;
// "insertions", optional: canaries/insert. Metrics: PartitionMetrics. Blobs:
//
//	index          Index over the population's users; the words of a canary count in
//	               place of those of the example that it replaces
//	overlay        Overlay over that index
//	canaries       JSON array of Placement
//	groups         ByUser only, if the parts have groups: see GroupsBlob
//	train-00000 …  IID only: the stream in the new order, of the original examples
//	               without canaries
var Partition = tasks.Kind{Name: "datasets/partition", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runPartition)}

// Inputs of Partition in addition to PartsInput.
const (
	BalancedInput   = "balanced"
	InsertionsInput = "insertions"
)

// PartitionParams are the parameters of Partition; PartitionScheme.Params makes them.
type PartitionParams struct {
	Partition Partitioning `json:"partition"`
	// Words is the size of a synthetic user; 0 keeps the sizes of the balanced users. Seed
	// determines the shuffle. Both are 0 for ByUser, so that seeds and sizes share its node.
	Words int    `json:"words,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`
}

// PartitionMetrics counts the population. Cohorts are drawn from its Users, and
// privacy accounting counts them.
type PartitionMetrics struct {
	Counts
	// ReplacedExamples counts the canaries, which Examples includes.
	ReplacedExamples int `json:"replaced_examples"`
	// DiscardedExamples were left over when synthetic users were filled.
	DiscardedExamples int `json:"discarded_examples"`
}

func runPartition(ctx context.Context, t *tasks.Task, params *PartitionParams) error {
	p := partitioner{task: t, params: *params}
	scheme, err := FindPartition(p.params.Partition)
	if err == nil {
		err = scheme.check(p.params)
	}
	if err != nil {
		return tasks.Permanent(err)
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	return scheme.run(ctx, &p)
}

// partitioner is one execution of Partition.
type partitioner struct {
	task     *tasks.Task
	params   PartitionParams
	balanced *Index
	inserted overlay
}

func (p *partitioner) open(ctx context.Context) (err error) {
	if p.balanced, err = ReadIndex(ctx, p.task, BalancedInput, MembersIndexBlob); err != nil || !p.task.Has(InsertionsInput) {
		return err
	}
	p.inserted, err = readOverlay(ctx, p.task, InsertionsInput)
	return err
}

// byUser recounts the words of users with canaries; the rest is unchanged.
func (p *partitioner) byUser(ctx context.Context) error {
	extents := slices.Clone(p.balanced.Extents)
	err := p.eachExample(ctx, func(r record) error {
		if r.canary >= 0 {
			extents[r.user].Words += p.words(r) - len(r.original)
		}
		return nil
	}, true)
	if err != nil {
		return err
	}
	if err := p.group(ctx); err != nil {
		return err
	}
	return p.write(ctx, p.balanced.WithExtents(extents), p.inserted.replacements)
}

// group writes the groups of the users' examples, if the data have groups.
func (p *partitioner) group(ctx context.Context) error {
	blob := groupsBlob(Train)
	if there, err := p.task.HasBlob(ctx, PartsInput, blob); err != nil || !there {
		return err
	}
	part, err := ReadIndex(ctx, p.task, PartsInput, IndexBlob(Train))
	if err != nil {
		return err
	}
	all, err := readGroups(ctx, p.task, PartsInput, blob, part.Counts().Examples)
	if err != nil {
		return err
	}
	groups, err := groupsWithin(all, part, p.balanced)
	if err != nil {
		return err
	}
	return putGroups(ctx, p.task, groups)
}

// record is one example of a balanced user.
type record struct {
	user     int
	original []int32 // valid only during the call
	canary   int     // -1 without one
}

// words returns the number of words that the record trains with.
func (p *partitioner) words(r record) int {
	if r.canary < 0 {
		return len(r.original)
	}
	return len(p.inserted.canaries[r.canary].Tokens)
}

// eachExample calls f with the examples of the balanced users in order; with sharersOnly, only of
// users with canaries.
func (p *partitioner) eachExample(ctx context.Context, f func(record) error, sharersOnly bool) error {
	scan := Scan(ctx, p.task, PartsInput, Train, p.balanced)
	sentence := make([]int32, 0, p.balanced.Sequence)
	for u, e := range p.balanced.Extents {
		replaced := p.inserted.replacements.of(u)
		if sharersOnly && len(replaced) == 0 {
			continue
		}
		scan.skipTo(e.Offset)
		for i := range e.Examples {
			var err error
			if sentence, err = ReadExample(scan, sentence, p.balanced.Sequence, maxToken); err != nil {
				return err
			}
			if err := f(record{user: u, original: sentence, canary: replaced.take(i)}); err != nil {
				return err
			}
		}
		if len(replaced) > 0 {
			return fmt.Errorf("canary at example %d of user %d, who has %d: %w", replaced[0].Example, u, e.Examples, storage.ErrCorrupt)
		}
		p.task.Progress(tasks.Progress{Done: int64(u + 1), Total: int64(len(p.balanced.Extents))})
	}
	return nil
}

// iid moves every record to a random position and refills users in the new order.
func (p *partitioner) iid(ctx context.Context) error {
	places, err := shuffledPlaces(seeds.Stream(p.params.Seed, seeds.Shuffle), p.balanced.Counts().Examples)
	if err != nil {
		return err
	}
	sorted := tempfiles.NewSorter()
	defer sorted.Close()
	var packed []byte
	err = p.eachExample(ctx, func(r record) error {
		packed = binary.AppendUvarint(packed[:0], uint64(r.canary+1))
		packed = AppendExample(packed, r.original)
		place := places[0]
		places = places[1:]
		return sorted.Add(uint64(place), packed)
	}, false)
	if err != nil {
		return err
	}
	refill := refiller{partitioner: p, stream: NewStreamWriter(ctx, p.task, Train)}
	for packed, err := range sorted.Sorted() {
		if err == nil {
			err = refill.add(packed)
		}
		if err != nil {
			return err
		}
	}
	return refill.close(ctx)
}

// shuffledPlaces returns a uniform permutation of n numbers (Fisher-Yates).
func shuffledPlaces(rng *rand.Rand, n int) ([]uint32, error) {
	if n > math.MaxUint32 {
		return nil, tasks.Permanent(fmt.Errorf("%d examples cannot be shuffled; the limit is %d", n, math.MaxUint32))
	}
	places := lists.Make(n, func(i int) uint32 { return uint32(i) })
	rng.Shuffle(n, func(i, j int) { places[i], places[j] = places[j], places[i] })
	return places, nil
}

// refiller fills synthetic users from shuffled records.
type refiller struct {
	*partitioner
	stream  *StreamWriter
	pending []byte  // the encoded examples of the user being filled
	carried Overlay // canaries among the pending examples
	open    Extent
	extents []Extent
	overlay Overlay
}

// add takes the next record: a uvarint, the canary plus 1 or 0 without one, and the encoded
// example.
func (f *refiller) add(packed []byte) error {
	canary, n := binary.Uvarint(packed)
	example := packed[n:]
	words, err := ReadExample(bytes.NewReader(example), make([]int32, 0, f.balanced.Sequence), f.balanced.Sequence, maxToken)
	if err != nil {
		return err
	}
	r := record{user: len(f.extents), original: words, canary: int(canary) - 1}
	if r.canary >= 0 {
		f.carried = append(f.carried, Replacement{User: r.user, Example: f.open.Examples, Canary: r.canary})
	}
	f.pending = append(f.pending, example...)
	f.open.Examples++
	f.open.Words += f.words(r)
	if !f.full() {
		return nil
	}
	return f.closeUser()
}

// full reports whether the user being filled is complete.
func (f *refiller) full() bool {
	if f.params.Words == 0 {
		return f.open.Examples == f.balanced.Extents[len(f.extents)].Examples
	}
	return f.open.Words >= f.params.Words
}

func (f *refiller) closeUser() error {
	f.open.Offset, f.open.Length = f.stream.offset, int64(len(f.pending))
	if _, err := f.stream.Write(f.pending); err != nil {
		return err
	}
	f.extents = append(f.extents, f.open)
	f.overlay = append(f.overlay, f.carried...)
	f.open, f.pending, f.carried = Extent{}, f.pending[:0], f.carried[:0]
	return nil
}

// close drops the user that is not full and writes the population.
func (f *refiller) close(ctx context.Context) error {
	if len(f.extents) == 0 {
		return tasks.Permanent(fmt.Errorf("the shuffled records do not fill one user of %d words; lower users.words", f.params.Words))
	}
	if err := f.stream.Close(); err != nil {
		return err
	}
	return f.write(ctx, indexOf(int64(f.stream.size), f.balanced.Sequence, f.extents), f.overlay)
}

func (p *partitioner) write(ctx context.Context, index *Index, o Overlay) error {
	discarded := p.balanced.Counts().Examples - index.Counts().Examples
	return Write(ctx, p.task, index, p.inserted.placements(), o, discarded)
}

// Write writes the blobs that Open reads, and PartitionMetrics: an index, the
// examples of it that canaries replace, and the canaries, with holders and insertions set. The
// metrics count every user of the index, including users without data.
func Write(ctx context.Context, t *tasks.Task, index *Index, list []Placement, o Overlay, discarded int) error {
	if err := t.Put(ctx, MembersIndexBlob, index.Encode()); err != nil {
		return err
	}
	if err := WritePlacements(ctx, t, list, o); err != nil {
		return err
	}
	counts := index.Counts()
	counts.Users = len(index.Extents)
	return t.SetMetrics(PartitionMetrics{Counts: counts, ReplacedExamples: len(o), DiscardedExamples: discarded})
}

// Partitioning names a way to divide the balanced users' data among the users of the population.
type Partitioning string

// Ways to partition.
const (
	ByUser Partitioning = "by-user"
	IID    Partitioning = "iid"
)

// partitions are all ways to partition.
var partitions = registry.New("partition", func(s PartitionScheme) Partitioning { return s.Partition }, byUser, iid)

// PartitionScheme describes a way to partition.
type PartitionScheme struct {
	Partition Partitioning
	// Summary describes the partition in one line; Source cites its origin.
	Summary, Source string
	// Unit names the unit that a guarantee over the population's users protects; WholeUnit is its
	// name if users are unchanged from the data (users.words 0).
	Unit, WholeUnit string
	// Rewrites reports whether the node writes the examples to new shards. Otherwise its population is
	// a view of the training stream.
	Rewrites bool
	// Refills reports whether users of a fixed size are refilled; their number is then known only
	// approximately before the node has run. Users that keep their sizes keep their number.
	Refills bool
	// UserOrder reports whether central training processes the records user after user; otherwise it
	// shuffles them.
	UserOrder bool
	// Params are the node's parameters, for users of a number of words: only those that the scheme
	// depends on, so that cells that differ in others share the node.
	Params func(words int, seed uint64) PartitionParams

	// check returns an error for parameters that Params does not make.
	check func(PartitionParams) error
	// run writes the population.
	run func(context.Context, *partitioner) error
}

// FindPartition returns the entry of a way to partition.
func FindPartition(p Partitioning) (PartitionScheme, error) { return partitions.Find(p) }

// Partitions lists all ways to partition.
func Partitions() []PartitionScheme { return partitions.Entries() }

// Choices lists the ways to partition for an experiment file.
func (Partitioning) Choices() []string { return partitions.Words() }

var byUser = PartitionScheme{
	Partition: ByUser,
	Summary:   "the balanced users as they are",
	Source:    "Thakkar et al. 2020, section 4.1",
	Unit:      "balanced user",
	WholeUnit: "user",
	UserOrder: true,
	Params:    func(int, uint64) PartitionParams { return PartitionParams{Partition: ByUser} },
	check: func(p PartitionParams) error {
		if p.Words != 0 || p.Seed != 0 {
			return fmt.Errorf("a %s partition takes neither words nor seed; got %d and %d", ByUser, p.Words, p.Seed)
		}
		return nil
	},
	run: func(ctx context.Context, p *partitioner) error { return p.byUser(ctx) },
}

var iid = PartitionScheme{
	Partition: IID,
	Summary:   "all examples, canaries among them, shuffled, and synthetic users filled from them one after another",
	Source:    "Thakkar et al. 2020, sections 4.1 and 4.3",
	Unit:      "synthetic user",
	WholeUnit: "synthetic user",
	Rewrites:  true,
	Refills:   true,
	Params: func(words int, seed uint64) PartitionParams {
		return PartitionParams{Partition: IID, Words: words, Seed: seed}
	},
	check: func(p PartitionParams) error {
		if p.Words < 0 {
			return fmt.Errorf("users.words is %d; expected at least 1, or 0 for users of the sizes that they have", p.Words)
		}
		return nil
	},
	run: func(ctx context.Context, p *partitioner) error { return p.iid(ctx) },
}
