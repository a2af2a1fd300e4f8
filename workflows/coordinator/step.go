package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/workflows/plan"
)

// step is the one step of a chain whose tasks exist: its parts, and the join
// that runs when they are all committed.
type step struct {
	chain *chain
	r     int
	began time.Time
	span  tracing.Span // on from the first attempt
	parts []*task
	join  *task
	// unfinished is the number of parts that have yet to be committed.
	unfinished int
	// objects are those of the parts as far as they are known: for deleting them.
	objects map[storage.Key][]storage.Blob
}

func newStep(ch *chain, r int, now time.Time) *step {
	s := &step{chain: ch, r: r, began: now, unfinished: ch.shape.Width, objects: make(map[storage.Key][]storage.Blob, ch.shape.Width)}
	label := stepLabel(ch.shape, r)
	for j := range ch.shape.Width {
		part := fmt.Sprintf("%s, part %d of %d", label, j+1, ch.shape.Width)
		s.parts = append(s.parts, &task{key: ch.shape.PartKey(r, j), label: part, owner: s, spec: ch.shape.PartSpec(r, j)})
	}
	s.join = &task{key: ch.shape.Key(r), label: label, owner: s, spec: ch.shape.JoinSpec(r)}
	return s
}

// stepLabel says in the words of the experiment file what a step of a chain
// advances: a federated round, or so many steps of SGD.
func stepLabel(shape *plan.Chain, r int) string {
	switch each := max(1, shape.StepRounds); {
	case shape.Width > 0:
		return fmt.Sprintf("round %d", r)
	case each > 1:
		return fmt.Sprintf("steps %d to %d", (r-1)*each+1, r*each)
	}
	return fmt.Sprintf("step %d", r)
}

// advance has the tasks of the current step run, as far as they can.
func (t *term) advance(ch *chain) {
	s := ch.current
	wants, rank := ch.passWants(ch.at), ch.passRank(ch.at)
	for _, task := range s.tasks() {
		t.setWants(task, wants, rank)
	}
	if len(wants) == 0 {
		t.withdrawn = true
		return
	}
	if !t.inputsReady(ch, wants, rank) {
		return
	}
	for _, part := range s.parts {
		t.readyIfIdle(part)
	}
	if s.unfinished == 0 {
		t.readyIfIdle(s.join)
	}
}

func (s *step) tasks() []*task { return append(s.parts[:len(s.parts):len(s.parts)], s.join) }

// inputsReady reports whether what every task of the step reads is there, and
// has it made if it isn't.
func (t *term) inputsReady(ch *chain, wants []*run, rank int) bool {
	inputs := ch.inputs
	if ch.at == 0 {
		inputs = append(inputs[:len(inputs):len(inputs)], ch.origin)
	}
	ready := true
	for _, d := range inputs {
		if d.available() {
			continue
		}
		ready = false
		for _, r := range wants {
			t.want(d, r, rank)
		}
	}
	return ready
}

// setWants replaces the wants of a step's task.
func (t *term) setWants(task *task, wants []*run, rank int) {
	changed := !slices.Equal(task.wants, wants)
	if changed && len(task.wants) == 0 {
		task.inheritTroubles(wants)
	}
	task.wants, task.rank = wants, rank
	if changed && task.state == ready {
		t.offer(task)
	}
}

func (t *term) readyIfIdle(task *task) {
	if task.state == idle {
		t.ready(task)
	}
}

// committed implements owner.
func (s *step) committed(t *term, task *task, objects []storage.Blob) {
	ch := s.chain
	if ch.current != s {
		return
	}
	if task == s.join {
		t.stepped(ch, s)
		t.schedule(ch)
		return
	}
	s.objects[task.key] = objects
	if s.unfinished--; s.unfinished == 0 {
		t.schedule(ch) // before, nothing else of the step depends on the part
	}
}

// stepped moves the chain on to the step that has just been joined.
func (t *term) stepped(ch *chain, s *step) {
	for _, part := range s.parts {
		t.drop(part) // a join that was found done may have outrun them
	}
	t.countRound(s)
	s.span.End(nil)
	ch.current = nil
	ch.at = s.r
	ch.frontier = max(ch.frontier, s.r)
	ch.gain(s.r)
	ended := false
	for _, cp := range ch.checkpoints {
		if cp.step == s.r {
			t.setAvailable(cp, true)
			ended = len(ch.passWants(s.r)) == 0
		}
	}
	t.retireAfter(ch, s, ended)
	t.changed = true
}

// errGivenUp is what a trace says of a round that is not finished.
var errGivenUp = errors.New("given up: nobody wants it any more, or it is done elsewhere")

// dropStep gives up the current step; what its parts have committed stays.
func (t *term) dropStep(ch *chain) {
	if ch.current == nil {
		return
	}
	for _, task := range ch.current.tasks() {
		t.drop(task)
	}
	ch.current.span.End(errGivenUp)
	ch.current = nil
}

// input implements owner.
func (s *step) input(t *term, reader *task, key storage.Key) (input, bool) {
	ch := s.chain
	if ch.current != s {
		return input{}, true // the step was dropped meanwhile
	}
	if reader == s.join {
		for _, part := range s.parts {
			if part.key == key {
				return input{part.state == finished, func() { s.runAgain(t, part) }}, true
			}
		}
	}
	for _, d := range ch.inputs {
		if d.key() == key {
			return input{d.available(), func() { t.loseDependency(d) }}, true
		}
	}
	switch at := ch.at; {
	case key != ch.shape.At(at).Key:
		return input{}, false
	case at == 0:
		return input{ch.origin.available(), func() { t.loseDependency(ch.origin) }}, true
	default:
		return input{true, func() { t.lose(ch, at) }}, true
	}
}

// runAgain runs a part of the step whose output is gone, if the step still runs.
func (s *step) runAgain(t *term, part *task) {
	if part.state == finished && s.chain.current == s {
		t.move(part, lose)
		s.unfinished++
		t.schedule(s.chain)
	}
}

// requeue implements owner.
func (s *step) requeue(t *term, _ *task) { t.schedule(s.chain) }

// late implements owner: what such an attempt has stored again goes again.
func (s *step) late(t *term, task *task) { t.retireLate(s.chain, task.key) }

// contributesTo implements owner: whoever needs a checkpoint that this pass reaches.
func (s *step) contributesTo(visit func(dependency)) { s.chain.missingAbove(s.chain.at, visit) }
