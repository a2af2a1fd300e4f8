package attributes

import (
	"context"
	"fmt"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

type Fields struct {
	// Infers an attribute of users from recorded updates, alone and jointly with their identity, by a
	// network trained on shadow devices. Needs data.devices and training.record.
	Attributes *Block `json:"attributes,omitempty" source:"Orekondy et al. 2018, section 6.1.3"`
}

type Block struct {
	// Values of the attribute, at least two. Users with none are left out.
	Values []Value `json:"values" required:"true"`
	observed.ViewFields
	Network
}

// Network is the fields of the network and its training, and parameters of the task.
type Network struct {
	// Units of the hidden layer.
	Units int `json:"units" default:"128" range:"[1,4096]" source:"Orekondy et al. 2018, section 4.3"`
	// Maximum number of epochs: training ends when the loss on a tenth of the shadow updates has not fallen for ten.
	Epochs int `json:"epochs" default:"300" range:"[1,10000]" unit:"epochs"`
	// Updates in a step.
	Batch int `json:"batch" default:"32" range:"[1,65536]" unit:"updates"`
	// Learning rate of SGD with momentum 0.9.
	LearningRate float64 `json:"learning_rate" default:"0.01" range:"(0,1000]" source:"Orekondy et al. 2018, section 4.3"`
	// Maximum number of updates of shadow and of anonymous devices, drawn at random; a task has all in memory.
	Updates int `json:"updates" default:"2000" range:"[10,100000]" unit:"updates"`
}

const block = "audit.attributes"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, block, f.Attributes.Layers, fail)
	observed.CheckDevices(s, block, fail)
	for _, problem := range checkValues(f.Attributes.Values) {
		fail([]string{block + ".values"}, "%s", problem)
	}
	observed.CheckOwned(s, block, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Attributes
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()), observed.NamesInputs(b)...)
	return b.Node(Kind, "attributes of users", Params{Seed: b.Setting().Seed, View: p.View(b.Setting()), Values: p.Values, Network: p.Network}, inputs...)
}

func (f *Fields) Work(s *audits.Setting) float64 {
	return s.UpdatesWork(f.Attributes.Units, float64(f.Attributes.Epochs)*float64(f.Attributes.Updates), audits.MomentumWork/float64(f.Attributes.Batch))
}

// Value is one of an attribute's, and who has it.
type Value struct {
	// Name of the value.
	Value string `json:"value" required:"true"`
	// Names as in the source, or patterns with * (any text), ? (any character) and [0-9]. One or a list.
	Users []string `json:"users" required:"true"`
}

// checkValues describes mistakes within the values.
func checkValues(values []Value) (problems []string) {
	names := map[string]bool{}
	for _, v := range values {
		if names[v.Value] {
			problems = append(problems, fmt.Sprintf("has the value %q twice", v.Value))
		}
		names[v.Value] = true
		if len(v.Users) == 0 {
			problems = append(problems, fmt.Sprintf("gives the value %q to nobody; expected names of users, or patterns", v.Value))
		}
		problems = append(problems, observed.Patterns(v.Users).Check()...)
	}
	if len(values) < 2 {
		problems = append(problems, fmt.Sprintf("has %d values; expected at least 2 to tell apart", len(values)))
	}
	return problems
}

const unknown = -1 // the value of users without one

// valueOf returns the number of a user's value, or unknown. Two values are an error.
func valueOf(values []Value, name string) (number int, err error) {
	number = unknown
	for i, v := range values {
		if !observed.Patterns(v.Users).Fit(name) {
			continue
		}
		if number != unknown {
			return unknown, fmt.Errorf("user %q has two values, %q and %q; expected one at most", name, values[number].Value, v.Value)
		}
		number = i
	}
	return number, nil
}

func readValues(ctx context.Context, t *tasks.Task, values []Value) ([]int, error) {
	names, err := observed.ReadNames(ctx, t)
	if err != nil {
		return nil, err
	}
	ofName := map[string]int{"": unknown}
	for _, name := range names.Source {
		if ofName[name], err = valueOf(values, name); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		if err := observed.Patterns(v.Users).CheckMatches(names.Source, fmt.Sprintf("has the value %q", v.Value)); err != nil {
			return nil, err
		}
	}
	return lists.Map(names.Users, func(name string) int { return ofName[name] }), nil
}
