package encoding

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func TestAnObjectComesBackInItsOrder(t *testing.T) {
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

func TestMembersAreSetInPlaceAndTakenOut(t *testing.T) {
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

func TestWhatIsNoObjectIsRefused(t *testing.T) {
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
