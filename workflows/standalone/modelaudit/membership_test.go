package modelaudit_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/control"
	"coalmine/workflows/standalone/modelaudit"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

// owned reads a file of owners.
func owned(t *testing.T, text string) []modelaudit.Owner {
	t.Helper()
	return must.Get(modelaudit.ReadOwners("texts.jsonl", strings.NewReader(text)))(t)
}

// known has texts of w1 to w9 in words of a model's vocabulary.
func known(t *testing.T, model []byte) func(text string) string {
	t.Helper()
	words := must.Get(control.ExportedVocabulary(model))(t)
	var pairs []string
	for i := 1; i <= 9; i++ {
		pairs = append(pairs, fmt.Sprintf("w%d", i), words[text.FirstWord+i])
	}
	return strings.NewReplacer(pairs...).Replace
}

const (
	membersFile = `{"user":"a","text":"w1 w2 w3 w4"}
{"user":"b","text":"w2 w5"}

{"user":"a","text":"w9 nobody w1"}
{"user":"c","text":"w3"}
`
	nonMembersFile = `{"user":"d","text":"w7 w7 w8"}
{"user":"e","text":"w1 w2 w9 w3 w4 w6"}
`
)

// A command's membership is that of the mean losses of users, by its answers for whole texts. The share of
// pairs of a member and a non-member of which the member costs less is the AUC.
func TestCommandMembershipUsesMeanLosses(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	c, in := commanded(t, model, false), known(t, model)
	of := modelaudit.Membership{Members: owned(t, in(membersFile)), NonMembers: owned(t, in(nonMembersFile))}
	got := must.Get(c.Membership(t.Context(), of))(t)
	loss := func(targets float64, texts ...string) float64 {
		sum := 0.0
		for _, text := range texts {
			answers := must.Get(c.Client.LogLikelihoods(t.Context(), []score.Pair{{Continuation: in(text)}}, 1))(t)
			sum -= answers[0].LogProb
		}
		return sum / targets
	}
	members := []float64{loss(7, "w1 w2 w3 w4", "w9 <unk> w1"), loss(2, "w2 w5"), loss(1, "w3")}
	others := []float64{loss(3, "w7 w7 w8"), loss(6, "w1 w2 w9 w3 w4 w6")}
	won := 0.0
	for _, m := range members {
		for _, o := range others {
			if m < o {
				won++
			}
		}
	}
	if a := got.Attacks[0].Members; got.By != "users" || got.Members != 3 || got.HeldOut != 2 || a.AUC.Value != won/6 || a.AUC.Low > a.AUC.Value {
		t.Errorf("%+v: %+v, want the AUC %v of three users against two", got, a, won/6)
	}
}

// A file, a command and an endpoint of the same model tell the same of texts without users, of which each is
// cut before its end.
func TestMembershipMatchesAcrossModelSources(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
	in := known(t, model)
	of := modelaudit.Membership{
		Sequence: 2, NeighbourTexts: 3, Seed: 1,
		Members: owned(t, in("w1 w2 w3\nw4 nobody w6\n")), NonMembers: owned(t, in("w9 w8 w7\nw2 w2 w2\nw1 w4 w1\n")),
	}
	want := must.Get(opened.Membership(t.Context(), of))(t)
	want.Attacks = slices.DeleteFunc(want.Attacks, func(o membership.AttackOutcome) bool { // these tell of targets alone
		return o.Attack == membership.MinKPlusPlus || o.Attack == membership.Curvature
	})
	for name, model := range map[string]member{"command": commanded(t, model, false), "endpoint": endpoint(t, servetest.ServeCompletions(t, model), model)} {
		got := must.Get(model.Membership(t.Context(), of))(t)
		if g, w := indented(t, got), indented(t, want); g != w || want.By != "texts" {
			t.Errorf("the report of the %s is\n%s\nthe file's\n%s", name, g, w)
		}
	}
}

// member is a model wherever it is.
type member interface {
	Membership(context.Context, modelaudit.Membership) (*modelaudit.MembershipReport, error)
}

// Texts after a prefix are told of by a file, and by a command and an endpoint, whose prefix has no ends of texts.
func TestMembershipAfterPrefix(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
	in := known(t, model)
	of := modelaudit.Membership{PrefixUsers: 1, Members: owned(t, in(membersFile)), NonMembers: owned(t, in(nonMembersFile+`{"user":"f","text":"w5 w4 w3"}`))}
	for _, m := range []member{opened, commanded(t, model, false), endpoint(t, servetest.ServeCompletions(t, model), model)} {
		got := must.Get(m.Membership(t.Context(), of))(t)
		at := slices.IndexFunc(got.Attacks, func(o membership.AttackOutcome) bool { return o.Attack == membership.ReCaLL })
		if at < 0 || got.Attacks[at].Members == nil || got.Attacks[at].Members.AUC.Value == got.Attacks[0].Members.AUC.Value && got.Attacks[at].Members.P == got.Attacks[0].Members.P || got.HeldOut != 3 {
			t.Errorf("%+v", got)
		}
	}
}

func TestMembershipRejectsBadTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "the file has no texts",
		`{"user":"a"}`:               `line 1: not a JSON object with a text`,
		"one text\n{\"text\": 3}":    `line 2: not a JSON object with a text`,
		`{"user":"a","Text":"w1"}`:   `line 1: not a JSON object with a text`,
		"{\"user\":\"a\",\"text\":1": `line 1: not a JSON object with a text`,
	} {
		if _, err := modelaudit.ReadOwners("f", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	_, _, model := trained(t)
	opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
	for want, of := range map[string]modelaudit.Membership{
		`user "a" is both a member and a non-member`:                                                        {Members: owned(t, membersFile), NonMembers: owned(t, membersFile)},
		`user "d" is a non-member, but members have all of its texts, such as "w2 w5"; expected texts that`: {Members: owned(t, membersFile), NonMembers: owned(t, `{"user":"d","text":"w2 w5"}`)},
		`text "w3" is a non-member, but members have all of its texts`:                                      {Members: owned(t, membersFile), NonMembers: owned(t, "w7\nw3")},
		"texts cut at -1 words or bytes: expected 1 to 1000, or 0 for the d":                                {Members: owned(t, "w1"), NonMembers: owned(t, "w2"), Sequence: -1},
		"the texts of 1 non-members as prefix: expected fewer than all 1":                                   {Members: owned(t, "w1"), NonMembers: owned(t, "w2"), PrefixUsers: 1},
		"101 neighbours of each text: expected 0 to 100":                                                    {Members: owned(t, "w1"), NonMembers: owned(t, "w2"), NeighbourTexts: 101},
	} {
		if _, err := opened.Membership(t.Context(), of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A common text may be a member's and a non-member's, if the non-member has others.
func TestSharedTextsAreCounted(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
	in := known(t, model)
	of := modelaudit.Membership{Members: owned(t, in(membersFile)), NonMembers: owned(t, in(nonMembersFile+`{"user":"e","text":"w2 w5"}`))}
	if got, err := opened.Membership(t.Context(), of); err != nil || got.SharedTexts != 1 {
		t.Errorf("%+v, %v; want one text on both sides", got, err)
	}
}

// Texts that differ in their dates alone are told apart without a model: those of members are older. Of dates that are
// drawn alike, by another seed, the interval of 95% covers one half.
func TestTheBlindBaselineReadsDates(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
	in, rng := known(t, model), rand.New(rand.NewPCG(3, 0))
	texts := func(first int) (owners []modelaudit.Owner) {
		for i := range 40 {
			// No two texts share a word with a date in it.
			date := fmt.Sprintf("(%d-%02d-%02dT%d)", first+rng.IntN(4), 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(1e9))
			owners = append(owners, modelaudit.Owner{User: fmt.Sprint(first, i), Texts: []string{in("w1 w2 ") + date}})
		}
		return owners
	}
	older := texts(2016)
	for apart, others := range map[bool][]modelaudit.Owner{true: texts(2020), false: texts(2016)} {
		for i := range others {
			others[i].User += " not a member"
		}
		got := must.Get(opened.Membership(t.Context(), modelaudit.Membership{Members: older, NonMembers: others, Seed: 1}))(t)
		if a := got.Blind.Members.AUC; apart && (a.Low < 0.85 || a.High > 1) || !apart && (a.Low > 0.5 || a.High < 0.5) {
			t.Errorf("dates apart %t: the blind baseline has an AUC of %+v", apart, a)
		}
	}
}
