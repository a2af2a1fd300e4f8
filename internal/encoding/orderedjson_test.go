package encoding

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func TestObjectKeepsMemberOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String(), 0, 8, rapid.ID).Draw(t, "names")
		var o Object
		for i, name := range names {
			must.Do(t, o.Set(name, i))
		}
		data := must.Get(json.Marshal(o))(t)
		var back Object
		if err := json.Unmarshal(data, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(o) {
			t.Fatalf("%s came back as %v (%v)", data, back, err)
		}
	})
}

func TestMembersAreMergedAndRemoved(t *testing.T) {
	t.Parallel()
	o := must.Get(ObjectOf(struct {
		B int `json:"b"`
		A any `json:"a"`
	}{1, nil}))(t)
	must.Do(t, o.Merge(Object{{"a", json.RawMessage(`[2]`)}, {"c", json.RawMessage(`3`)}}))
	if err := o.Join(Object{{"d", nil}, {"c", nil}}); err == nil {
		t.Error("two members of one name were joined")
	}
	for _, c := range []struct {
		object Object
		want   string
	}{{o, `{"b":1,"a":[2],"c":3}`}, {o.Without("b", "x"), `{"a":[2],"c":3}`}, {nil, `{}`}} {
		if data, err := json.Marshal(c.object); err != nil || string(data) != c.want {
			t.Errorf("got %s (%v), want %s", data, err, c.want)
		}
	}
	if _, there := o.Get("x"); there {
		t.Error("a member that was never set is there")
	}
}

func TestNonObjectsAreRejected(t *testing.T) {
	t.Parallel()
	var o Object
	for _, text := range []string{`[]`, `"x"`, `{"a":1,"a":2}`, `{"a"`} {
		if err := json.Unmarshal([]byte(text), &o); err == nil {
			t.Errorf("%s was read as %v", text, o)
		}
	}
	if err := json.Unmarshal([]byte(`null`), &o); err != nil || len(o) != 0 {
		t.Errorf("null is %v, %v", o, err)
	}
}

// values generates the values of JSON.
func values() *rapid.Generator[any] {
	return rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.String().AsAny(),
			rapid.SliceOfN(values(), 0, 3).AsAny(), rapid.MapOfN(rapid.String(), values(), 0, 3).AsAny(),
		)
	})
}

func TestJSONFieldsMatchEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.String(), values(), 0, 6).Draw(t, "object")
		data := must.Get(json.MarshalIndent(object, rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "prefix"), " "))(t)
		names := append(slices.Sorted(maps.Keys(object)), "not there, surely")
		fields, err := JSONFields(data, names...)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for i, name := range names {
			want, there := object[name]
			var got any
			if fields[i] != nil {
				err = json.Unmarshal(fields[i], &got)
			}
			if wanted, _ := json.Marshal(want); err != nil || there != (fields[i] != nil) || there && !equal(got, wanted) {
				t.Fatalf("%q of %s is %s (%v), want %s", name, data, fields[i], err, wanted)
			}
		}
	})
}

func equal(got any, wanted []byte) bool {
	var want any
	return json.Unmarshal(wanted, &want) == nil && reflect.DeepEqual(got, want)
}

func TestFieldNamesMatchExactlyAndOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, want string }{
		{`{"text": "right", "Text": "wrong", "TEXT": 3}`, "right"},
		{`{"Text": "wrong", "\u0074ext": "right"}`, "right"},
		{`{"text": "\ud83d\ude00"}`, "\U0001f600"},
		{`{"other": "\ud83d", "text": "right", "other": 1}`, "right"},
		{`{"text": "a", "text": "a"}`, `error: "text" stands twice`},
		{`{"text": "a \ud83d b"}`, `error: "text" has half of a surrogate pair`},
		{`{"text": "\udcb2\ud83d"}`, `error: "text" has half of a surrogate pair`},
		{`{"text": "\\ud83d"}`, `\ud83d`},
		{`{"text": 3}`, "error: json: cannot unmarshal number"},
		{`["text"]`, "error: json: cannot unmarshal array"},
		{`{"text": "a"} {}`, "error: invalid character"},
		{`{"text": "a"`, "error: unexpected end"},
	} {
		var fields struct {
			Text *string `json:"text"`
			None int
		}
		got, err := "", UnmarshalJSON([]byte(c.object), &fields)
		if err != nil {
			got = "error: " + err.Error()
		} else if fields.Text != nil {
			got = *fields.Text
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s gives %q, want %q", c.object, got, c.want)
		}
	}
}

func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"user": "ann", "text": "\ud83d\ude00", "x": [1, {"user": 2}]}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		fields, err := JSONFields(object, "user", "text")
		var known map[string]json.RawMessage
		if wrong := json.Unmarshal(object, &known); err == nil && wrong != nil && string(trim(object)) != "null" {
			t.Fatalf("%q was read as %s: %v", object, fields, wrong)
		}
		for i, name := range []string{"user", "text"} {
			if err == nil && string(fields[i]) != string(known[name]) {
				t.Fatalf("%q of %q is %q, want %q", name, object, fields[i], known[name])
			}
		}
	})
}
