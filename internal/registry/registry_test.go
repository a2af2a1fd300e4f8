package registry

import (
	"slices"
	"testing"
)

type shade string

type paint struct {
	shade shade
	price int
}

func paints(entries ...paint) Registry[shade, paint] {
	return New("paint", func(p paint) shade { return p.shade }, entries...)
}

func TestFindReturnsNamedEntry(t *testing.T) {
	t.Parallel()
	r := paints(paint{"ochre", 3}, paint{"azure", 5})
	if p, err := r.Find("azure"); err != nil || p.price != 5 {
		t.Errorf("azure: %+v, %v", p, err)
	}
	if names := r.Names(); !slices.Equal(names, []shade{"ochre", "azure"}) {
		t.Errorf("names %v, want them in the order given", names)
	}
	if words := r.Words(); !slices.Equal(words, []string{"ochre", "azure"}) {
		t.Errorf("words %v", words)
	}
	if all := r.Entries(); len(all) != 2 || all[0].shade != "ochre" {
		t.Errorf("entries %v", all)
	}
}

func TestUnknownNameErrorListsEntries(t *testing.T) {
	t.Parallel()
	_, err := paints(paint{"ochre", 3}, paint{"azure", 5}).Find("mauve")
	if want := `paint "mauve": expected one of ochre, azure`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := paints(paint{"ochre", 3}).Find(""); err == nil {
		t.Error("the empty name was found")
	}
}

func TestEntriesAreCopied(t *testing.T) {
	t.Parallel()
	r := paints(paint{"ochre", 3})
	r.Names()[0], r.Entries()[0].price = "mauve", 9
	if p, err := r.Find("ochre"); err != nil || p.price != 3 {
		t.Errorf("ochre is now %+v, %v", p, err)
	}
}

func TestDuplicateOrEmptyNamePanics(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]paint{{{"ochre", 1}, {"ochre", 2}}, {{"", 1}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v made a list", entries)
				}
			}()
			paints(entries...)
		}()
	}
}
