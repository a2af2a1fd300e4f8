package attempts_test

import (
	"encoding/json"
	"testing"

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
		data, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got attempts.Outcome
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if (got.Objects == nil) != (what == "untold") || len(got.Objects) != len(sent.Objects) {
			t.Errorf("%s: sent %v, got %v", what, sent.Objects, got.Objects)
		}
	}
	if objects := c.Objects(); len(objects) != 1 || objects[0].Name != "object" || objects[0].Blocks != nil || c.Blobs[2].Blocks == nil {
		t.Errorf("objects %+v of commit %+v", objects, c)
	}
}
