package tasks_test

import (
	"errors"
	"fmt"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
)

func TestTroubleOfTheStoreIsNeverPermanent(t *testing.T) {
	t.Parallel()
	for _, mark := range []error{storage.ErrAway, storage.ErrFull, storage.ErrUnknown, storage.ErrUnsuitable} {
		if err := tasks.Permanent(fmt.Errorf("reading the source: %w", mark)); tasks.IsPermanent(err) {
			t.Errorf("%v fails the task for good", err)
		}
	}
	for _, err := range []error{errors.New("the model diverged"), storage.ErrCorrupt} {
		if !tasks.IsPermanent(tasks.Permanent(err)) {
			t.Errorf("%v is tried again", err)
		}
	}
}
