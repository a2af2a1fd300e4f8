package graph

import (
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/tasks"
)

var (
	allStates = []State{Idle, Parked, Ready, Pausing, InFlight, Finished}
	allEvents = []event{becomeReady, park, unpark, send, land, pause, resume, giveUp, finish, lose}
)

// drawnMoves are the lines of the drawing in taskstate.go.
func drawnMoves(t *testing.T) []string {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "taskstate.go", nil, parser.ParseComments))(t)
	line := regexp.MustCompile(`^//\t(.*?) +--(.+?)--> +(.*)$`)
	var drawn []string
	for _, group := range file.Comments {
		for _, c := range group.List {
			if m := line.FindStringSubmatch(c.Text); m != nil {
				drawn = append(drawn, fmt.Sprintf("%s --%s--> %s", m[1], m[2], m[3]))
			}
		}
	}
	return drawn
}

func TestStateDiagramMatchesTransitions(t *testing.T) {
	t.Parallel()
	var want []string
	for _, m := range moves {
		var from []string
		for _, s := range m.from {
			from = append(from, s.String())
		}
		want = append(want, fmt.Sprintf("%s --%s--> %s", strings.Join(from, ", "), m.event, m.to))
	}
	if drawn := drawnMoves(t); !slices.Equal(drawn, want) {
		t.Errorf("the comment draws\n%s\nthe table has\n%s", strings.Join(drawn, "\n"), strings.Join(want, "\n"))
	}
}

// The table is whole: every event leads somewhere, to one state from each, and every
// state is reached and left.
func TestEveryTaskStateIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	drawn := drawnMoves(t)
	reached, left, seen := map[State]bool{Idle: true}, map[State]bool{}, map[event]bool{}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Idle
		for range 100 {
			e := allEvents[r.IntN(len(allEvents))]
			to, ok := s.next(e)
			if !ok && to != s {
				t.Fatalf("seed %d: %s cannot happen to a task that is %s, and yet it becomes %s", seed, e, s, to)
			}
			if ok {
				if !slices.ContainsFunc(drawn, func(line string) bool {
					return strings.Contains(line, s.String()) && strings.HasSuffix(line, fmt.Sprintf(" --%s--> %s", e, to))
				}) {
					t.Fatalf("seed %d: %s leads from %s to %s, which is not drawn", seed, e, s, to)
				}
				reached[to], left[s], seen[e] = true, true, true
			}
			s = to
		}
	}
	if len(reached) != len(allStates) || len(left) != len(allStates) || len(seen) != len(allEvents) {
		t.Errorf("reached %v, left %v, by %v", reached, left, seen)
	}
	for _, s := range allStates {
		for _, e := range allEvents {
			n := 0
			for _, m := range moves {
				if m.event == e && slices.Contains(m.from, s) {
					n++
				}
			}
			if n > 1 {
				t.Errorf("%s leads from %s to %d states", e, s, n)
			}
		}
	}
}

func TestImpossibleTransitionIsReported(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	g := New(slog.New(slog.NewTextHandler(&log, nil)))
	x := &Task{traits: newTraits("round 7", &tasks.Spec{})}
	const what = `task "round 7" is idle: it cannot land`
	defer func() {
		if r := recover(); build.Invariants && r != what || !build.Invariants && r != nil {
			t.Errorf("it ends with %v", r)
		}
		if x.State() != Idle {
			t.Errorf("the task is %s", x.State())
		}
		if !build.Invariants && !strings.Contains(log.String(), "impossible transition of a task") {
			t.Errorf("the log says %q", log.String())
		}
	}()
	g.move(x, land)
}
