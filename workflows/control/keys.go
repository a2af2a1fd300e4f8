package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// ErrKey: a run of the same experiment waits for another secret key, or is done with it.
var ErrKey = errors.New("a secret key is missing")

// CheckKeys returns an error if a done or unfinished run differs from an experiment only in its secret key:
// that key was lost or replaced, and a second training under another key would cost as much privacy as the
// first. It returns nil if a run has the same keys, too: it is continued or cached.
func CheckKeys(ctx context.Context, api API, e *experiment.Spec) error {
	keys := e.Keys()
	if len(keys) == 0 {
		return nil
	}
	all, err := api.List(ctx)
	if err != nil {
		return err
	}
	var missing error
	for _, s := range all {
		if s.Phase == runs.Failed || s.Phase == runs.Cancelled || s.Name != e.Name {
			continue
		}
		other, err := api.Experiment(ctx, s.Run)
		if err != nil {
			return err
		}
		if !e.SameButKeys(other) {
			continue
		}
		waits := other.Keys()
		if slices.Equal(waits, keys) {
			return nil
		}
		needs, cancel := "waits for the key", "cancel that run, or "
		if s.Phase == runs.Done {
			needs, cancel = "is done with the key", ""
		}
		missing = fmt.Errorf("%w: run %s of this experiment %s %s; put the key back into the file that --secret-key names and repeat the command, or %sstart a run with its own key and epsilon by --new",
			ErrKey, s.Run, needs, strings.Join(waits, ", "), cancel)
	}
	return missing
}
