package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/workflows/runs"
)

// Choice is the run chosen for a name that fits several runs of one experiment: the
// newest.
type Choice struct {
	Name string // as given
	Run  string
	Fits int // number of runs
}

// String describes the choice, for display.
func (c Choice) String() string {
	return fmt.Sprintf("%q fits %d runs; this is the newest, %s", c.Name, c.Fits, c.Run)
}

type choiceKey struct{}

// TellingChoices returns a context that calls tell with each choice.
func TellingChoices(ctx context.Context, tell func(Choice)) context.Context {
	return context.WithValue(ctx, choiceKey{}, tell)
}

// Chose reports a choice to the function of TellingChoices, if ctx has one.
func Chose(ctx context.Context, c Choice) {
	if tell, ok := ctx.Value(choiceKey{}).(func(Choice)); ok {
		tell(c)
	}
}

// find returns the run that a name means.
func (l *Local) find(ctx context.Context, name string) (*runs.Run, error) {
	if name == "" || name == Latest {
		return l.latest(ctx)
	}
	fits, err := l.fitting(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(fits) == 1 {
		return l.get(ctx, fits[0])
	}
	return l.newest(ctx, name, fits)
}

// findOnly is find for operations that cannot be undone: a name that fits several runs is an error,
// and so is the id of a removed run, even if it begins the ids of later runs.
func (l *Local) findOnly(ctx context.Context, name string) (*runs.Run, error) {
	if name == "" || name == Latest {
		return l.latest(ctx)
	}
	fits, err := l.fitting(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(fits[0], name+"."):
		return nil, fmt.Errorf("run %q: %w in %s; %s is another run: name it in full if it is meant", name, ErrNoRun, l.archive, strings.Join(fits, ", "))
	case len(fits) > 1:
		return nil, fmt.Errorf("run %q: %w begin so: %s; name the one that is meant", name, ErrAmbiguous, strings.Join(fits, ", "))
	}
	return l.get(ctx, fits[0])
}

func (l *Local) latest(ctx context.Context) (*runs.Run, error) {
	all, unreadable, err := l.runs.Readable(ctx)
	if err != nil {
		return nil, err
	}
	if all = present(all); len(all) > 0 {
		return all[0], nil
	}
	if n := len(unreadable); n > 0 {
		return nil, fmt.Errorf("%w: none of the %d runs in %s can be read (coalmine status lists them), such as %s: %w", ErrNoRun, n, l.archive, unreadable[0].ID, unreadable[0].Err)
	}
	return nil, fmt.Errorf("%w: %s holds none yet; start one with: coalmine run FILE", ErrNoRun, l.archive)
}

// fitting returns the ids of runs that a name may mean, at least one.
func (l *Local) fitting(ctx context.Context, name string) ([]string, error) {
	ids, err := l.runs.IDs(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(ids, name) {
		return []string{name}, nil
	}
	if _, err := l.runs.Get(ctx, name); runs.IsUnreadable(err) {
		return []string{name}, nil // it has lost its record
	}
	fits := slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, name) })
	if named := slices.DeleteFunc(slices.Clone(fits), func(id string) bool { return !runs.IsOf(id, name) }); len(named) > 0 {
		return named, nil // without experiments with longer names that begin with it
	}
	if len(fits) == 0 {
		return nil, fmt.Errorf("run %q: %w in %s; see: coalmine status", name, ErrNoRun, l.archive)
	}
	return fits, nil
}

// newest returns the last submitted of several runs, if all are of one experiment. Removed and
// unreadable runs do not count.
func (l *Local) newest(ctx context.Context, name string, fits []string) (*runs.Run, error) {
	var newest *runs.Run
	count := 0
	for _, id := range fits {
		run, err := l.get(ctx, id)
		switch {
		case errors.Is(err, ErrNoRun), errors.Is(err, storage.ErrNotFound), runs.IsUnreadable(err):
			continue
		case err != nil:
			return nil, err
		case newest != nil && run.Spec.Name != newest.Spec.Name:
			return nil, fmt.Errorf("run %q: %w of different experiments begin so: %s", name, ErrAmbiguous, strings.Join(fits, ", "))
		case newest == nil || run.State.Submitted.After(newest.State.Submitted):
			newest = run
		}
		count++
	}
	if newest == nil {
		return nil, fmt.Errorf("run %q: %w in %s that can be read; see: coalmine status", name, ErrNoRun, l.archive)
	}
	if count > 1 {
		Chose(ctx, Choice{name, newest.ID, count})
	}
	return newest, nil
}
