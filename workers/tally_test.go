package workers

import (
	"reflect"
	"testing"

	"coalmine/tasks/attempts"
)

func TestTallyCountsAttemptResults(t *testing.T) {
	t.Parallel()
	var x tally
	if got := x.attributes(); !reflect.DeepEqual(got, []any{"done", 0, "failed", 0, "handed_back", 0, "overtaken", 0}) {
		t.Errorf("before any attempt: %v", got)
	}
	for _, r := range []attempts.Result{attempts.Done, attempts.Failed, attempts.Done, attempts.Refused, attempts.Returned, attempts.StoreAway, attempts.Done, attempts.Missing} {
		x.add(r)
	}
	if got := x.attributes(); !reflect.DeepEqual(got, []any{"done", 3, "failed", 2, "handed_back", 3, "overtaken", 0}) {
		t.Errorf("after eight attempts: %v", got)
	}
}
