package population

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
)

// Balance cuts the users of the training part into balanced users (Thakkar et al. 2020, section
// 4.1). A balanced user is a run of one user's examples: examples are added until it has Words
// words or more, so it has less than Words + SentenceWords. The user's remaining examples are
// discarded; a user with fewer than Words words is dropped. No token is copied: balanced users are
// extents of the training stream. With Words 0, users with examples are kept unchanged.
//
// Params: BalanceParams. Input "parts": Encode. Metrics: BalanceMetrics. Blobs:
//
//	index      Index over the balanced users that train
//	held-out   Index over those that are held out
var Balance = tasks.Kind{Name: "datasets/balance", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runBalance)}

// PartsInput names an Encode node as an input: of Balance, and of Partition.
const PartsInput = "parts"

// Names of the indexes that Balance writes; Partition writes the first too.
const (
	MembersIndexBlob = "index"
	HeldOutIndexBlob = "held-out"
)

// BalanceParams are the parameters of Balance.
type BalanceParams struct {
	// Words is the size of a balanced user, at least 1; 0 keeps users as they are.
	Words int `json:"words"`
	// HeldOutUsers is the share of the balanced users, drawn at random, that
	// never train: non-members for membership tests.
	HeldOutUsers float64 `json:"held_out_users"`
	// Seed draws the held-out users.
	Seed uint64 `json:"seed"`
}

// BalanceMetrics counts the balanced users and the discarded examples of the training part.
type BalanceMetrics struct {
	// Balanced counts the balanced users that train, HeldOut the held-out ones.
	Balanced Counts `json:"balanced"`
	HeldOut  Counts `json:"held_out"`
	// DroppedUsers counts users with fewer words than a balanced user.
	DroppedUsers int `json:"dropped_users"`
	// DiscardedExamples counts examples of dropped users and remainders.
	DiscardedExamples int `json:"discarded_examples"`
	DiscardedWords    int `json:"discarded_words"`
}

func (p *BalanceParams) Check() error {
	if p.Words < 0 {
		return fmt.Errorf("users.words is %d; expected at least 1, or 0 for users as they are", p.Words)
	}
	return CheckFraction("held_out_users", p.HeldOutUsers)
}

func runBalance(ctx context.Context, t *tasks.Task, p *BalanceParams) error {
	if err := p.Check(); err != nil {
		return tasks.Permanent(err)
	}
	index, err := ReadIndex(ctx, t, PartsInput, IndexBlob(Train))
	if err != nil {
		return err
	}
	balanced, usersLeft, err := balance(ctx, t, index, p.Words)
	if err != nil {
		return err
	}
	members, out := split(balanced, HeldOut(p.Seed, len(balanced), p.HeldOutUsers))
	if len(members) == 0 {
		return tasks.Permanent(p.nobody(index.Counts().Users, usersLeft, len(out)))
	}
	if err := putUsers(ctx, t, index, members, out); err != nil {
		return err
	}
	return t.SetMetrics(NewBalanceMetrics(index.Counts(), usersLeft, countUsers(members), countUsers(out)))
}

// putUsers writes the indexes of the users that train and of the users that are held out.
func putUsers(ctx context.Context, t *tasks.Task, index *Index, members, out []Extent) error {
	if err := t.Put(ctx, MembersIndexBlob, index.WithExtents(members).Encode()); err != nil {
		return err
	}
	return t.Put(ctx, HeldOutIndexBlob, index.WithExtents(out).Encode())
}

// nobody returns the error for a population without users.
func (p *BalanceParams) nobody(users, balanced, out int) error {
	if p.Words == 0 {
		return fmt.Errorf("no user is left to train: %d have examples in the training part, and %d are held out; lower held_out_users or the shares of the other parts", users, out)
	}
	return fmt.Errorf("no balanced user is left to train: users of %d words can be cut from %d of %d users, and %d are held out; lower users.words or held_out_users", p.Words, balanced, users, out)
}

// balance returns the extents of all balanced users, and the number of users of the part that they
// come from.
func balance(ctx context.Context, t *tasks.Task, index *Index, words int) (all []Extent, users int, err error) {
	if words == 0 {
		all = slices.DeleteFunc(slices.Clone(index.Extents), func(e Extent) bool { return e.Examples == 0 })
		return all, len(all), nil
	}
	scan := Scan(ctx, t, PartsInput, Train, index)
	sentence := make([]int32, 0, index.Sequence)
	for u, extent := range index.Extents {
		before := len(all)
		open := Extent{Offset: extent.Offset}
		for range extent.Examples {
			start := scan.offset()
			if sentence, err = ReadExample(scan, sentence, index.Sequence, maxToken); err != nil {
				return nil, 0, err
			}
			open.Length += scan.offset() - start
			open.Examples++
			if open.Words += len(sentence); open.Words >= words {
				all = append(all, open)
				open = Extent{Offset: open.Offset + open.Length}
			}
		}
		if scan.offset() != extent.Offset+extent.Length {
			return nil, 0, fmt.Errorf("examples of user %d end at %d, expected %d: %w", u, scan.offset(), extent.Offset+extent.Length, storage.ErrCorrupt)
		}
		if len(all) > before {
			users++
		}
		t.Progress(tasks.Progress{Done: int64(u + 1), Total: int64(len(index.Extents))})
	}
	return all, users, nil
}

// split divides users by whether they are held out.
func split(all []Extent, held []bool) (members, out []Extent) {
	for u, e := range all {
		if held[u] {
			out = append(out, e)
		} else {
			members = append(members, e)
		}
	}
	return members, out
}

func countUsers(users []Extent) (c Counts) {
	for _, e := range users {
		c.AddUser(e.Examples, e.Words)
	}
	return c
}

func NewBalanceMetrics(part Counts, users int, members, out Counts) BalanceMetrics {
	m := BalanceMetrics{DroppedUsers: part.Users - users, Balanced: members, HeldOut: out}
	m.DiscardedExamples = part.Examples - m.Balanced.Examples - m.HeldOut.Examples
	m.DiscardedWords = part.Words - m.Balanced.Words - m.HeldOut.Words
	return m
}

// CheckFraction accepts 0 <= f < 1.
func CheckFraction(name string, f float64) error {
	if !(f >= 0 && f < 1) {
		return fmt.Errorf("%s is %v; expected at least 0 and less than 1", name, f)
	}
	return nil
}

// HeldOut draws the held-out users among n balanced users: fraction x n of them, rounded to the
// nearest, all sets of that size equally likely.
func HeldOut(seed uint64, n int, fraction float64) []bool {
	out := make([]bool, n)
	if fraction == 0 {
		return out
	}
	for _, u := range seeds.Stream(seed, seeds.HeldOutUsers).Perm(n)[:int(fraction*float64(n)+0.5)] {
		out[u] = true
	}
	return out
}

// NothingToPredict returns the error of a part without ordinary words or labels. It advises more examples if the
// part has no examples, and words of the vocabulary if it has some.
func NothingToPredict(part Part, examples bool) error {
	if !examples {
		return fmt.Errorf("the %s part has nothing to predict: raise data.%s.fraction, or name a split with examples by data.%s.split", part, part, part)
	}
	return fmt.Errorf("the %s part has words, but none of them is in the vocabulary: raise data.vocabulary.size, or take for the %s part texts whose words the training part has, too",
		part, part)
}
