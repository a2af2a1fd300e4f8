package population

import (
	"context"
	"fmt"
	"unsafe"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
)

// CanariesBlob is the name of a list of canaries: a JSON array of Canary, or of
// Placement once they are inserted.
const CanariesBlob = "canaries"

// Canary is an out-of-distribution sentence that is inserted on purpose.
type Canary struct {
	// Number is the canary's index in the list, and selects its random streams.
	Number int `json:"number"`
	// Tokens are ordinary words, without Begin and End; for a pair, the source, Separator and the
	// target.
	Tokens []int32  `json:"tokens"`
	Words  []string `json:"words"`
	// UserProbability and ExampleProbability are exact, in lowest terms: "1/5000". They are empty
	// for a canary that is held back, and if InsertedTimes is set.
	UserProbability    string `json:"user_probability,omitempty"`
	ExampleProbability string `json:"example_probability,omitempty"`
	// InsertedTimes is the configured number of examples to replace; 0 if not configured.
	InsertedTimes int `json:"inserted_times,omitempty"`
	// HeldBack canaries are never inserted: they are the audit's controls.
	HeldBack bool `json:"held_back,omitempty"`
	// Format names the format that the canary was drawn from, if canaries have several.
	Format string `json:"format,omitempty"`
}

// Placement is a canary and the counts of its copies.
type Placement struct {
	Canary
	// Users are the secret sharers: the balanced users selected to receive it.
	Users int `json:"users"`
	// Holders counts the users of the population with a copy.
	Holders int `json:"holders"`
	// Insertions counts the copies in the population.
	Insertions int `json:"insertions"`
}

// ReadPlacements reads the placements of an insert or a partition node.
func ReadPlacements(ctx context.Context, t *tasks.Task, input string) ([]Placement, error) {
	var list []Placement
	if err := t.InputJSON(ctx, input, CanariesBlob, &list); err != nil {
		return nil, err
	}
	for i, c := range list {
		if c.Number != i || len(c.Tokens) == 0 || len(c.Tokens) > text.MaxExample {
			return nil, fmt.Errorf("canary %d has number %d and %d tokens: %w", i, c.Number, len(c.Tokens), storage.ErrCorrupt)
		}
	}
	return list, nil
}

// overlay holds the canaries that replace examples of a population's stream.
type overlay struct {
	replacements Overlay
	canaries     []Placement
}

// placements returns a copy of all canaries, in the population or not; never nil.
func (o overlay) placements() []Placement { return append([]Placement{}, o.canaries...) }

// readOverlay reads the overlay and the canaries of a node, once for all tasks of a worker.
func readOverlay(ctx context.Context, t *tasks.Task, input string) (overlay, error) {
	node, err := t.Input(input)
	if err != nil {
		return overlay{}, err
	}
	return tasks.Memoize(t, node, OverlayBlob, func() (o overlay, size int64, err error) {
		if o.canaries, err = ReadPlacements(ctx, t, input); err != nil {
			return o, 0, err
		}
		data, err := t.Blob(ctx, input, OverlayBlob)
		if err != nil {
			return o, 0, err
		}
		if o.replacements, err = DecodeOverlay(data, len(o.canaries)); err != nil {
			return o, 0, fmt.Errorf("overlay of node %s: %w", node.Short(), err)
		}
		return o, int64(len(o.replacements)*int(unsafe.Sizeof(Replacement{})) + 256*len(o.canaries)), nil
	})
}

// place sets holders and insertions from an overlay.
func place(list []Placement, o Overlay) {
	lastHolder := make([]int, len(list)) // user + 1
	for i := range list {
		list[i].Holders, list[i].Insertions = 0, 0
	}
	for _, r := range o {
		list[r.Canary].Insertions++
		if lastHolder[r.Canary] != r.User+1 {
			lastHolder[r.Canary] = r.User + 1
			list[r.Canary].Holders++
		}
	}
}

// WritePlacements completes the list from the overlay and writes both: the
// blobs CanariesBlob and OverlayBlob.
func WritePlacements(ctx context.Context, t *tasks.Task, list []Placement, o Overlay) error {
	place(list, o)
	if err := t.PutJSON(ctx, CanariesBlob, list); err != nil {
		return err
	}
	return t.Put(ctx, OverlayBlob, o.encode())
}
