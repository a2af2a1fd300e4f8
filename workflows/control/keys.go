package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/workflows/experiment"
)

// ErrKey: an unfinished run of the same experiment waits for another secret key.
var ErrKey = errors.New("a secret key is missing")

// CheckKeys returns an error if an unfinished run differs from an experiment only in its secret key: that key
// was lost or replaced, and a second training under another key would cost as much privacy as the first. An
// unfinished run of the same experiment continues in any case.
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
		if s.Phase.Finished() || s.Name != e.Name {
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
		missing = fmt.Errorf("%w: run %s of this experiment waits for the key %s; put the key back into the file that --secret-key names and repeat the command, or cancel that run, or start a run with its own key and epsilon by --new",
			ErrKey, s.Run, strings.Join(waits, ", "))
	}
	return missing
}
