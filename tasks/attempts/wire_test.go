package attempts_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

func keys() *rapid.Generator[storage.Key] {
	return rapid.Custom(func(t *rapid.T) storage.Key {
		return storage.Key{Digest: storage.DigestOf(rapid.SliceOf(rapid.Byte()).Draw(t, "hashed"))}
	})
}

func drawnAttempts() *rapid.Generator[attempts.Attempt] {
	return rapid.Custom(func(t *rapid.T) attempts.Attempt {
		input := rapid.Custom(func(t *rapid.T) tasks.Input {
			return tasks.Input{Name: rapid.String().Draw(t, "name"), Key: keys().Draw(t, "input")}
		})
		a := attempts.Attempt{
			Spec: tasks.Spec{
				Key: keys().Draw(t, "key"), Kind: rapid.String().Draw(t, "kind"), Version: rapid.Int().Draw(t, "version"),
				Step: rapid.Int().Draw(t, "step"), Part: rapid.Int().Draw(t, "part"), SecretKey: rapid.String().Draw(t, "secret key"),
			},
			Number: rapid.Int().Draw(t, "number"), Trace: rapid.String().Draw(t, "trace"),
			TimeoutSeconds: rapid.Float64().Draw(t, "timeout"),
			Leader:         attempts.Leader{Holder: rapid.String().Draw(t, "holder"), Store: rapid.String().Draw(t, "store"), StoreID: rapid.String().Draw(t, "store id")},
		}
		// Absent fields come back as nil, as from JSON.
		if params := rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "params"); len(params) > 0 {
			a.Params, _ = json.Marshal(params)
		}
		if inputs := rapid.SliceOf(input).Draw(t, "inputs"); len(inputs) > 0 {
			a.Inputs = inputs
		}
		if runs := rapid.SliceOf(rapid.StringN(1, -1, -1)).Draw(t, "runs"); len(runs) > 0 {
			a.Runs = runs
		}
		return a
	})
}

func TestAttemptRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := drawnAttempts().Draw(t, "attempt")
		got := must.Get(attempts.DecodeAttempt(sent.Encode()))(t)
		if !reflect.DeepEqual(got, sent) {
			t.Fatalf("sent %+v, got %+v", sent, got)
		}
	})
}

// Every field of the type must travel: one that is added later is not forgotten.
func TestAllFieldsOfAnAttemptTravel(t *testing.T) {
	t.Parallel()
	var sent attempts.Attempt
	fill(reflect.ValueOf(&sent).Elem())
	got := must.Get(attempts.DecodeAttempt(sent.Encode()))(t)
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
}

// fill gives everything a value other than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	default:
		panic("a field of kind " + v.Kind().String() + ": teach fill and the wire format about it")
	}
}

func TestAReaderPassesOverFieldsOfLaterVersions(t *testing.T) {
	t.Parallel()
	sent := attempts.Attempt{Number: 3}
	data := protowire.AppendTag(nil, 99, protowire.BytesType)
	data = protowire.AppendString(data, "later")
	data = protowire.AppendTag(append(data, sent.Encode()...), 98, protowire.Fixed32Type)
	got, err := attempts.DecodeAttempt(protowire.AppendFixed32(data, 1))
	if err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A later format is recognized before anything else of it is read.
func TestDecodeAttemptReportsLaterFormat(t *testing.T) {
	t.Parallel()
	data := protowire.AppendTag(nil, 1, protowire.VarintType) // no key
	data = protowire.AppendVarint(data, 7)
	data = protowire.AppendVarint(protowire.AppendTag(data, 16, protowire.VarintType), attempts.Format+1)
	if _, err := attempts.DecodeAttempt(data); !errors.Is(err, attempts.ErrLaterFormat) || !strings.Contains(err.Error(), "format 2; this build reads formats up to 1") {
		t.Errorf("got %v", err)
	}
}

func TestDecodeAttemptRejectsInvalidData(t *testing.T) {
	t.Parallel()
	whole := (&attempts.Attempt{Spec: tasks.Spec{Kind: "test/kind"}, Number: 1}).Encode()
	shortKey := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "short")
	for what, data := range map[string][]byte{
		"JSON": []byte(`{"key":"00"}`), "a part": whole[:len(whole)-1], "a short key": shortKey, "zeros": make([]byte, 4),
	} {
		if a, err := attempts.DecodeAttempt(data); err == nil || !strings.Contains(err.Error(), "no attempt") {
			t.Errorf("%s gave %+v, %v", what, a, err)
		}
	}
}

func FuzzDecodeAttempt(f *testing.F) {
	f.Add((&attempts.Attempt{Spec: tasks.Spec{Kind: "test/kind", Inputs: []tasks.Input{{Name: "in"}}}, Number: 1, Runs: []string{"run"}}).Encode())
	f.Add([]byte(`{"key":"00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := attempts.DecodeAttempt(data)
		if err != nil {
			return
		}
		// A name that is empty may stand there, and is left out the next time.
		again, err := attempts.DecodeAttempt(a.Encode())
		if err != nil || again.ID() != a.ID() || len(again.Inputs) != len(a.Inputs) {
			t.Errorf("%+v came back as %+v, %v", a, again, err)
		}
	})
}

// A worker that does not tell of objects must not look like one that has stored
// none: they would be left behind when the node is deleted.
func TestOutcomeKeepsNilAndEmptyObjectsApart(t *testing.T) {
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

// Outcomes of builds before formats had versions are read. One of their outcomes has another meaning today.
func TestDecodeOutcomeOfOtherBuilds(t *testing.T) {
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
