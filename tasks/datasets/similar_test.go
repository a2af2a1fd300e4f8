package datasets

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

func TestUsersThatDifferInSpacesOrUnicodeFormAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  SimilarUsers
	}{
		{nil, SimilarUsers{}},
		{[]string{"ann", "Ann", "an n", " ", "caf\u00e9"}, SimilarUsers{}},
		{[]string{"ann", " bob", "cid"}, SimilarUsers{}},
		{[]string{"u1", "u2", " u1 ", "u1\t"}, SimilarUsers{2, " u1 ", "u1"}},
		{[]string{" u1", "u1 "}, SimilarUsers{1, "u1 ", " u1"}},
		{[]string{"cafe\u0301", "x", "caf\u00e9"}, SimilarUsers{1, "caf\u00e9", "cafe\u0301"}},
	} {
		if got := similarUsers(c.names); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.names, got, c.want)
		}
	}
	src := fileOf("posts.jsonl", jsonLines([]line{{"ann", "one two"}, {"ann ", "one two"}}))
	facts := must.Get(Survey(t.Context(), []source.File{src}, source.Limits{}, []Recipe{{Reading: source.Reading{Level: text.ByteLevel}}}))(t)
	if want := (SimilarUsers{1, "ann ", "ann"}); facts[0].Similar != want {
		t.Errorf("the survey found %+v", facts[0].Similar)
	}
}
