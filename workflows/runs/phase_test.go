package runs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
)

// drawnMoves are the lines of the drawing in the package comment.
func drawnMoves(t *testing.T) []string {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "state.go", nil, parser.ParseComments|parser.PackageClauseOnly))(t)
	line := regexp.MustCompile(`(?m)^\t(.*?) +--(\w+)--> +(.*)$`)
	var drawn []string
	for _, m := range line.FindAllStringSubmatch(docText(file), -1) {
		drawn = append(drawn, fmt.Sprintf("%s --%s--> %s", m[1], m[2], m[3]))
	}
	return drawn
}

func docText(file *ast.File) string {
	var lines []string
	for _, c := range file.Doc.List {
		lines = append(lines, strings.TrimPrefix(c.Text, "//"))
	}
	return strings.Join(lines, "\n")
}

func TestPackageCommentMatchesMoves(t *testing.T) {
	t.Parallel()
	names := func(phases []Phase) string {
		var all []string
		for _, p := range phases {
			all = append(all, string(p))
		}
		return strings.Join(all, ", ")
	}
	var want []string
	for _, m := range moves {
		to := names(m.to)
		if to == "" {
			to = "as before"
		}
		want = append(want, fmt.Sprintf("%s --%s--> %s", names(m.from), m.kind, to))
	}
	drawn := drawnMoves(t)
	slices.Sort(drawn)
	slices.Sort(want)
	if !slices.Equal(drawn, want) {
		t.Errorf("the package comment draws\n%s\nthe table has\n%s", strings.Join(drawn, "\n"), strings.Join(want, "\n"))
	}
}

// randomEntry draws an entry of any kind that there is.
func randomEntry(r *rand.Rand) Entry {
	kinds := []Kind{
		Submitted, PauseEntry, ResumeEntry, CancelEntry, RetryEntry, PinEntry, Prioritized, NoteEntry, TagEntry, RemoveEntry,
		Started, AttemptFailed, WorkerDied, WorkerBack, NodeFailed, Diverged, Rejected, Finished, "of a later version",
	}
	key := storage.Key{Digest: storage.DigestOf([]byte{byte(r.IntN(2))})}
	e := Entry{Kind: kinds[r.IntN(len(kinds))], Time: time.Unix(r.Int64N(1e9), 0), Pinned: r.IntN(2) == 0, Missing: r.IntN(2)}
	switch e.Kind {
	case NodeFailed:
		e.Key, e.Cells = &key, []string{"c01"}
	case Finished:
		e.Outcomes = map[string]Phase{"c01": []Phase{Done, Failed}[r.IntN(2)]}
	case RetryEntry:
		if r.IntN(2) == 0 {
			e.Keys = []storage.Key{key}
		}
	case Rejected:
		e.Error = "no plan"
	}
	return e
}

// For any entries in any order, phases change by the moves alone.
func TestPhasesChangeOnlyByMoves(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := State{Phase: Queued}
		for range 40 {
			before, e := s.Clone(), randomEntry(r)
			s.Apply(e)
			if s.Phase == before.Phase {
				continue
			}
			m, ok := findMove(e.Kind, before.Phase)
			if !ok || !slices.Contains(m.to, s.Phase) {
				t.Fatalf("seed %d: %q led from %s to %s, which is no move", seed, e.Kind, before.Phase, s.Phase)
			}
			if s.Phase.Finished() == s.Finished.IsZero() {
				t.Fatalf("seed %d: the run is %s and ended at %v", seed, s.Phase, s.Finished)
			}
			seen[fmt.Sprint(before.Phase, e.Kind, s.Phase)] = true
		}
	}
	for _, m := range moves {
		for _, from := range m.from {
			for _, to := range m.to {
				if from != to && !seen[fmt.Sprint(from, m.kind, to)] {
					t.Errorf("no sequence led from %s by %q to %s", from, m.kind, to)
				}
			}
		}
	}
}

// A refused retry names the state of the run, and the command that lists the failed nodes.
func TestRejectedRetryOfANodeNamesTheState(t *testing.T) {
	t.Parallel()
	failed, done := storage.Key{Digest: storage.DigestOf([]byte("failed"))}, storage.Key{Digest: storage.DigestOf([]byte("done"))}
	run := &Run{ID: "x", State: State{Phase: Failed, Failures: map[storage.Key]Failure{failed: {}}}}
	err := allowed(run, Entry{Kind: RetryEntry, Keys: []storage.Key{done}})
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "run x is failed") || !strings.Contains(err.Error(), "coalmine logs x") {
		t.Error(err)
	}
}

// An allowed operation counts in the log, and a refused one changes no phase.
func TestIneffectiveCommandsAreRejected(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := State{Phase: Queued}
		for range 40 {
			s.Apply(randomEntry(r))
			for _, kind := range commands {
				after := s.Clone()
				err := allowed(&Run{ID: "x", State: s}, Entry{Kind: kind, Pinned: true})
				after.Apply(Entry{Kind: kind, Time: time.Unix(1, 0)})
				switch {
				case err != nil && !errors.Is(err, ErrState):
					t.Fatalf("seed %d: %q of a run that is %s: %v", seed, kind, s.Phase, err)
				case err != nil && after.Phase != s.Phase, err != nil && after.Removed != s.Removed:
					t.Fatalf("seed %d: %q of a run that is %s was refused, and yet it is %s", seed, kind, s.Phase, after.Phase)
				case err == nil && kind == RemoveEntry && !after.Removed:
					t.Fatalf("seed %d: a run that is %s was to be removed and is not", seed, s.Phase)
				}
				if m, moves := findMove(kind, s.Phase); err == nil && moves && len(m.to) == 1 && after.Phase != m.to[0] {
					t.Fatalf("seed %d: after %q a run that was %s is %s", seed, kind, s.Phase, after.Phase)
				}
			}
		}
	}
}

func TestRejectedCommandReportsExpectedPhase(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]string{
		PauseEntry:  "run x is done: the run's state does not allow it; expected a queued, running or paused run",
		ResumeEntry: "run x is done: the run's state does not allow it; the run has no failed nodes and no missing outputs (coalmine run --new FILE computes an experiment again)",
		RetryEntry:  "run x is done: the run's state does not allow it; the run has no failed nodes and no missing outputs (coalmine run --new FILE computes an experiment again)",
	} {
		if err := allowed(&Run{ID: "x", State: State{Phase: Done}}, Entry{Kind: kind}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", kind, err, want)
		}
	}
	const cancelled = "run x is cancelled: the run's state does not allow it; the run has no failed nodes; to continue it: coalmine resume x"
	if err := allowed(&Run{ID: "x", State: State{Phase: Cancelled}}, Entry{Kind: RetryEntry}); err == nil || err.Error() != cancelled {
		t.Errorf("a retry of a cancelled run: %v, want %s", err, cancelled)
	}
}
