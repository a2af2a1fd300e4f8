package attempts_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/attempts"
)

// A worker that does not tell of objects must not look like one that has stored
// none: they would be left behind when the node is deleted.
func TestAnOutcomeTellsNoObjectsFromUntoldOnes(t *testing.T) {
	t.Parallel()
	c := &storage.Commit{Blobs: []storage.Blob{
		{Name: "empty"}, {Name: "inline", Size: 1, Inline: []byte{1}}, {Name: "object", Size: 1 << 20, Blocks: []byte("sums")},
	}}
	for what, sent := range map[string]attempts.Outcome{
		"untold": {}, "none": {Objects: (&storage.Commit{}).Objects()}, "one": {Objects: c.Objects()},
	} {
		data := must.Get(json.Marshal(sent))(t)
		var got attempts.Outcome
		must.Do(t, json.Unmarshal(data, &got))
		if (got.Objects == nil) != (what == "untold") || len(got.Objects) != len(sent.Objects) {
			t.Errorf("%s: sent %v, got %v", what, sent.Objects, got.Objects)
		}
	}
	if objects := c.Objects(); len(objects) != 1 || objects[0].Name != "object" || objects[0].Blocks != nil || c.Blobs[2].Blocks == nil {
		t.Errorf("objects %+v of commit %+v", objects, c)
	}
}

// Outcomes of builds from before formats had versions are read; one of theirs means something else today.
func TestOutcomesOfOtherBuilds(t *testing.T) {
	t.Parallel()
	const refused = `message k.1 is not the attempt that its name says; make sure that coordinator and workers are of one version: 9 bytes that are no attempt`
	for _, c := range []struct {
		name, data string
		want       attempts.Outcome
		later      bool
	}{
		{"an older one", `{"number":2,"result":"done"}`, attempts.Outcome{Number: 2, Result: attempts.Done}, false},
		{"with a new field", `{"format":1,"result":"failed","mood":"bad"}`, attempts.Outcome{Format: 1, Result: attempts.Failed}, false},
		{"a refusal", `{"result":"refused","error":"the loss is NaN"}`, attempts.Outcome{Result: attempts.Refused, Error: "the loss is NaN"}, false},
		{"an older worker that cannot read", `{"result":"refused","error":"` + refused + `"}`, attempts.Outcome{Result: attempts.Returned, Unread: true, Error: refused}, false},
		{"a later format", `{"format":2,"result":["done"]}`, attempts.Outcome{}, true},
		{"a later result", `{"format":1,"result":"postponed"}`, attempts.Outcome{}, true},
	} {
		got, err := attempts.DecodeOutcome([]byte(c.data))
		if !reflect.DeepEqual(got, c.want) || errors.Is(err, attempts.ErrLaterFormat) != c.later || (err != nil) != c.later {
			t.Errorf("%s is read as %+v, %v", c.name, got, err)
		}
	}
	for _, garbage := range []string{"", "{", `"done"`, `{"result":7}`} {
		if got, err := attempts.DecodeOutcome([]byte(garbage)); err == nil || errors.Is(err, attempts.ErrLaterFormat) {
			t.Errorf("%s is read as %+v, %v", garbage, got, err)
		}
	}
}
