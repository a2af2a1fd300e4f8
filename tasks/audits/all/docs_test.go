package all

import (
	"strings"
	"testing"
	"unicode"

	"coalmine/tasks/audits"
)

// Each column has a phrase beside its name, and no two phrases are equal.
func TestEveryMeasureHasAPhraseOfItsOwn(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	measure := func(d *audits.Description, m *audits.Measure) {
		name := d.Name + ", " + m.Name + " " + m.Header
		switch {
		case m.Name == "" && m.Header == "":
			return
		case m.Doc == "":
			t.Errorf("%s: has no Doc", name)
		case said[m.Doc] != "":
			t.Errorf("%s: has the Doc of %s: %q", name, said[m.Doc], m.Doc)
		case strings.HasSuffix(m.Doc, ".") || strings.ContainsAny(m.Doc, "\n\t") || m.Doc != strings.TrimSpace(m.Doc):
			t.Errorf("%s: its Doc %q is no phrase in one line without a full stop", name, m.Doc)
		case unicode.IsUpper(rune(m.Doc[0])) && unicode.IsLower(rune(m.Doc[1])):
			t.Errorf("%s: its Doc %q begins with a capital", name, m.Doc)
		}
		said[m.Doc] = name
	}
	for _, d := range Audits() {
		for i := range d.Measures {
			measure(&d, &d.Measures[i])
		}
		for i := range d.Canary {
			measure(&d, &d.Canary[i])
		}
	}
	if len(said) == 0 {
		t.Error("no audit has a measure")
	}
}
