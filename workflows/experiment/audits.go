package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// Methods holds the fields of each audit in the audit block, in the order of package all; an audit without
// fields has nil. In files, JSON and the schema, the fields belong to the audit block itself.
type Methods []audits.Fields

// Gates holds the limits of each audit (audits.Description.NewLimits) in the same order. Their fields
// belong to the block audit.fail_if.
type Gates []any

var (
	methodsType = reflect.TypeFor[Methods]()
	gatesType   = reflect.TypeFor[Gates]()
)

func newMethods() Methods {
	list := make(Methods, len(all.Audits()))
	for i, d := range all.Audits() {
		if d.New != nil {
			list[i] = d.New()
		}
	}
	return list
}

func newGates() Gates {
	list := make(Gates, len(all.Audits()))
	for i, d := range all.Audits() {
		list[i] = d.NewLimits()
	}
	return list
}

// added locates a struct that an audit adds to a block: list is the index of the field that holds the list
// of these structs, place the position in that list.
type added struct {
	list  []int
	place int
}

// in returns the added struct of a block. If the list is empty, in first fills it.
func (a *added) in(block reflect.Value) reflect.Value {
	list := block.FieldByIndex(a.list)
	if list.Len() == 0 && list.Type() == methodsType {
		list.Set(reflect.ValueOf(newMethods()))
	} else if list.Len() == 0 {
		list.Set(reflect.ValueOf(newGates()))
	}
	return list.Index(a.place).Elem().Elem()
}

// addedFields returns the fields that audits add to a block in place of f, a field of type Methods or Gates.
func addedFields(f reflect.StructField) []field {
	var prototypes reflect.Value
	switch f.Type {
	case methodsType:
		prototypes = reflect.ValueOf(newMethods())
	case gatesType:
		prototypes = reflect.ValueOf(newGates())
	}
	var fields []field
	for i := range prototypes.Len() {
		prototype := prototypes.Index(i)
		if prototype.IsNil() {
			continue
		}
		for _, inner := range fieldsOf(prototype.Elem().Elem().Type()) {
			inner.added = &added{f.Index, i}
			fields = append(fields, inner)
		}
	}
	return fields
}

// Method is an audit that a cell requests.
type Method struct {
	*audits.Description
	audits.Fields
}

// Requested returns the audits that a cell requests, in the order of package all.
func (a *Audit) Requested() []Method {
	if a == nil {
		return nil
	}
	var asked []Method
	for i, fields := range a.Methods {
		if a.asks(i) {
			asked = append(asked, Method{&all.Audits()[i], fields})
		}
	}
	return asked
}

// asks reports whether a cell requests the audit at this position in package all.
func (a *Audit) asks(place int) bool {
	return a != nil && place < len(a.Methods) && a.Methods[place] != nil && audits.Asked(a.Methods[place])
}

// RequestedFields returns the fields of the audit with fields of type F. It returns false if the cell does
// not request that audit.
func RequestedFields[F audits.Fields](a *Audit) (F, bool) {
	for _, m := range a.Requested() {
		if f, ok := m.Fields.(F); ok {
			return f, true
		}
	}
	var none F
	return none, false
}

// MarshalJSON implements json.Marshaler.
func (a Audit) MarshalJSON() ([]byte, error) { return marshalBlock(&a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Audit) UnmarshalJSON(data []byte) error { return unmarshalBlock(data, a) }

// MarshalJSON implements json.Marshaler.
func (f FailIf) MarshalJSON() ([]byte, error) { return marshalBlock(&f) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *FailIf) UnmarshalJSON(data []byte) error { return unmarshalBlock(data, f) }

// GivenLimits returns the limits that the file gives.
func (f *FailIf) GivenLimits() (given []audits.GivenLimit) {
	if f == nil {
		return nil
	}
	for place, limits := range f.Gates {
		given = append(given, all.Audits()[place].GivenLimits(limits)...)
	}
	return given
}

// marshalBlock encodes a block as if the added fields were its own.
func marshalBlock(block any) ([]byte, error) {
	v, out := reflect.ValueOf(block).Elem(), encoding.Object{}
	for _, f := range fieldsOf(v.Type()) {
		value := f.in(v)
		if f.absent(value) {
			continue
		}
		if err := out.Set(f.name, value.Interface()); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// unmarshalBlock reads the output of marshalBlock. Unknown members are an error.
func unmarshalBlock(data []byte, block any) error {
	var members encoding.Object
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	v := reflect.ValueOf(block).Elem()
	v.SetZero()
	for _, f := range fieldsOf(v.Type()) {
		into := f.in(v)
		raw, there := members.Get(f.name)
		if !there {
			continue
		}
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.DisallowUnknownFields()
		if err := d.Decode(into.Addr().Interface()); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		members = members.Without(f.name)
	}
	if len(members) > 0 {
		return fmt.Errorf("json: unknown field %q", members[0].Name)
	}
	return nil
}

// Measured returns the distinct rounds (sgd: steps) after which the model is measured, in ascending order:
// the multiples of audit.every and the rounds of audit.at, each moved up to the end of its task, and the
// last round. Without an audit block it returns none.
func (e *Experiment) Measured() []int {
	if e.Audit == nil {
		return nil
	}
	rounds := append(e.regularly(), e.chosen()...)
	slices.Sort(rounds)
	return slices.Compact(append(rounds, e.Training.Rounds))
}

// regularly returns the multiples of audit.every before the last round, each moved up to the end of its task.
func (e *Experiment) regularly() []int {
	every := e.Audit.Every.Of(e.Training.Rounds)
	if every == 0 {
		return nil
	}
	var rounds []int
	for round := every; round < e.Training.Rounds; {
		end := e.Training.endOfTask(round)
		rounds = append(rounds, end)
		round = end/every*every + every
	}
	return rounds
}

// chosen returns the rounds of audit.at, each moved up to the end of its task.
func (e *Experiment) chosen() []int {
	var rounds []int
	for _, share := range e.Audit.At {
		rounds = append(rounds, e.Training.endOfTask(share.Of(e.Training.Rounds)))
	}
	return rounds
}

// endOfTask returns the last round of the task that contains a round. Models are stored only after such rounds.
func (t *Training) endOfTask(round int) int {
	task := max(1, t.StepsPerTask)
	return min((round+task-1)/task*task, t.Rounds)
}

// checkAt returns the first mistake in audit.at for a training of this many rounds, or "".
func (a *Audit) checkAt(rounds int) string {
	before := numbers.Share{}
	for _, share := range a.At {
		switch round := share.Of(rounds); {
		case round > rounds:
			return fmt.Sprintf("has %s; expected at most the %s of the training (sgd: steps)", share, readable.Count(rounds, "round"))
		case round <= before.Of(rounds):
			return fmt.Sprintf("has %s after %s, which are rounds %d and %d; expected distinct rounds in ascending order", share, before, round, before.Of(rounds))
		}
		before = share
	}
	return ""
}

// measuringWarnings returns a warning for each requested measurement that moves to another round.
func (c *Cell) measuringWarnings() []string {
	e := &c.Experiment
	if e.Audit == nil || !e.Training.Central() {
		return nil
	}
	var warnings []string
	every, task := e.Audit.Every.Of(e.Training.Rounds), e.Training.StepsPerTask
	if every > 0 && every < task {
		warnings = append(warnings, fmt.Sprintf("audit.every is %s, but models are measured only between tasks, after every %d: set training.steps_per_task to %d or a divisor of it", readable.Count(every, "step"), task, every))
	}
	for _, share := range e.Audit.At {
		if step := share.Of(e.Training.Rounds); e.Training.endOfTask(step) != step {
			return append(warnings, fmt.Sprintf("audit.at has step %d, but models are measured only between tasks, here after step %d: set training.steps_per_task to a divisor of %d", step, e.Training.endOfTask(step), step))
		}
	}
	return warnings
}
