package devices

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
)

// Profiles gives each profile a device of the adversary: hand-made sets of examples, to find the
// anonymous devices that match them (Orekondy et al. 2018, section 5.2.2, iii). They follow all
// other devices, which keep their numbers.
//
// It has no params. Inputs: population.Input, a Split or a Mix node; ProfilesInput, a
// datasets/encode node of the same vocabulary, of which each user of the training part is a
// profile; and datasets.CorpusInput, the corpus of that node, which names them. Blobs and metrics
// are as for Split, and
//
//	profiles   the names of the profiles, in the order of their devices, as JSON
var Profiles = tasks.Kind{Name: "devices/profiles", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runProfiles)}

// ProfilesInput is an input of Profiles, ProfilesBlob a blob of it.
const (
	ProfilesInput = "profiles"
	ProfilesBlob  = "profiles"
)

func runProfiles(ctx context.Context, t *tasks.Task, _ *struct{}) error {
	p := profiler{divided: divided{task: t}}
	if err := p.open(ctx); err != nil {
		return err
	}
	w := population.NewWriter(ctx, t, p.population)
	if err := copyUsers(ctx, w, p.population); err != nil {
		return err
	}
	if err := copyUsers(ctx, w, p.profiles); err != nil {
		return err
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	if err := t.PutJSON(ctx, ProfilesBlob, p.names); err != nil {
		return err
	}
	return putWorld(ctx, t, p.devices, p.summary)
}

// profiler is one execution of Profiles.
type profiler struct {
	divided
	profiles *population.Population
	names    []string
}

func (p *profiler) open(ctx context.Context) (err error) {
	if p.divided, err = readDivided(ctx, p.task); err != nil {
		return err
	}
	if p.profiles, err = population.OpenPart(ctx, p.task, ProfilesInput, population.Train); err != nil {
		return err
	}
	if err := p.task.InputJSON(ctx, datasets.CorpusInput, datasets.UsersBlob, &p.names); err != nil {
		return err
	}
	if len(p.names) == 0 || len(p.names) != p.profiles.Users() || len(p.devices) != p.population.Users() {
		return fmt.Errorf("%d names of %d profiles, and %d devices of a population of %d: %w", len(p.names), p.profiles.Users(), len(p.devices), p.population.Users(), storage.ErrCorrupt)
	}
	p.add()
	return nil
}

// add gives every profile a device with its own user, after all others.
func (p *profiler) add() {
	user := 0
	for _, d := range p.devices {
		user = max(user, d.User+1)
	}
	for i := range p.names {
		p.devices = append(p.devices, Device{User: user + i, Shadow: true, Set: Profile})
		p.summary.ProfileExamples += p.profiles.Examples(i)
	}
	p.summary.Devices, p.summary.Profiles = len(p.devices), len(p.names)
}

func copyUsers(ctx context.Context, w *population.Writer, from *population.Population) error {
	for user := range from.Users() {
		sentences, err := from.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for i, sentence := range sentences {
			if err := w.Add(FeatureWords(sentence), from.Canary(user, i)); err != nil {
				return err
			}
		}
		w.EndUser()
	}
	return nil
}

// ReadProfiles reads the names of the profiles of a Profiles node.
func ReadProfiles(ctx context.Context, t *tasks.Task, input string) (names []string, err error) {
	err = t.InputJSON(ctx, input, ProfilesBlob, &names)
	return names, err
}
