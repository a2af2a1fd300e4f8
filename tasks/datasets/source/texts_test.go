package source

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
)

// tarred is a tar archive of files: in turn a name and a text.
func tarred(t testing.TB, namesAndTexts ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var err error
	for pair := range slices.Chunk(namesAndTexts, 2) {
		header := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: pair[0], Size: int64(len(pair[1])), Mode: 0o644})
		_, text := w.Write([]byte(pair[1]))
		err = errors.Join(err, header, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// damagedAt has another byte there.
func damagedAt(data string, at int) string { return data[:at] + "~" + data[at+1:] }

// manyTexts returns n files of one example each, of 20 users.
func manyTexts(n int) (namesAndTexts []string) {
	for i := range n {
		namesAndTexts = append(namesAndTexts, fmt.Sprintf("user %d/%d.txt", i%20, i), strings.Repeat("some words ", 20))
	}
	return namesAndTexts
}

func TestTextFilesAreTheExamplesOfTheirUsers(t *testing.T) {
	t.Parallel()
	folders := tarred(t, "./austen/b.txt", "Two.\n", "austen/deep/a.txt", "\ufeffOne line,\r\nits second.\n\n\nNext one.", "carroll/x.txt", "  Down \n",
		".git/c.txt", "hidden", "austen/.d.txt", "hidden", "austen/e.md", "no text", "nobody/f.txt", " \n\n")
	files := tarred(t, "ann.txt", "Hi \"you\" <b>.\nBye.", "bob.b.txt", "Yes.")
	for _, c := range []struct {
		data string
		unit forms.Unit
		want []string
	}{
		{folders, "", []string{"austen: Two.", "austen: One line,", "austen: its second.", "austen: Next one.", "carroll: Down"}},
		{folders, forms.Paragraphs, []string{"austen: Two.", "austen: One line, its second.", "austen: Next one.", "carroll: Down"}},
		{folders, forms.WholeFiles, []string{"austen: Two.", "austen: One line, its second. Next one.", "carroll: Down"}},
		{files, forms.Lines, []string{`ann: Hi "you" <b>.`, "ann: Bye.", "bob.b: Yes."}},
	} {
		for _, form := range []forms.Form{"", forms.Texts} {
			got, err := readAs(t, Reading{Origin: Origin{Form: form, Unit: c.unit}}, zstandard(t, []byte(c.data)))
			if err != nil || !slices.Equal(lines(got), c.want) {
				t.Errorf("form %q, unit %q: %q, %v; want %q", form, c.unit, lines(got), err, c.want)
			}
		}
	}
}

func TestTheGroupOfATextIsItsFile(t *testing.T) {
	t.Parallel()
	got, err := readAs(t, Reading{Grouped: true}, []byte(tarred(t, "ann/a.txt", "one\ntwo", "ann/b.txt", "three", "bob/a.txt", "four")))
	if err != nil || len(got) != 4 || got[0].Group != "ann/a.txt" || got[1].Group != "ann/a.txt" || got[2].Group != "ann/b.txt" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Text beyond the length of an example is skipped without being held.
func TestALongTextIsAtFaultAndTheNextIsRead(t *testing.T) {
	t.Parallel()
	data := tarred(t, "a.txt", "one\n"+strings.Repeat("x", 100_000)+"\n\ntwo\nthree")
	for unit, want := range map[forms.Unit][]string{forms.Lines: {"a: one", "a: two", "a: three"}, forms.Paragraphs: {"a: two three"}} {
		reading := Reading{Origin: Origin{Form: forms.Texts, Unit: unit, SkipFaults: true}}
		var got []Record
		var skipped Skipped
		for rec, err := range reading.Read(t.Context(), []File{inMemory("a.tar", []byte(data))}, Limits{LineBytes: 1000}, &skipped) {
			must.Do(t, err)
			got = append(got, rec)
		}
		place := map[forms.Unit]string{forms.Lines: "file 1, a.txt, line 2: the line", forms.Paragraphs: "file 1, a.txt, line 1: the paragraph"}[unit]
		if !slices.Equal(lines(got), want) || skipped.Records != 1 || !strings.HasPrefix(skipped.First[0], place+" is longer than 1000 bytes") {
			t.Errorf("%s: %q and %+v; want %q and %s", unit, lines(got), skipped, want, place)
		}
	}
}

func TestUnitNeedsTextFiles(t *testing.T) {
	t.Parallel()
	for _, o := range []Origin{{Unit: "word"}, {Form: forms.CSV, Unit: forms.Lines}, {Form: forms.Texts, Unit: "word"}} {
		if err := o.Check(false); err == nil || !strings.Contains(err.Error(), "expected one of line, paragraph, file, of the form texts") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []Origin{{Form: forms.Texts, Unit: forms.WholeFiles}, {Unit: forms.Paragraphs}} {
		if err := o.Check(false); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := (Origin{Unit: forms.Lines}).Check(true); err == nil {
		t.Error("a unit of images is accepted")
	}
	// Without a form it is told from the content whether there are text files.
	_, err := readAs(t, Reading{Origin: Origin{Unit: forms.Lines, SkipFaults: true}}, []byte(twoLines))
	must.Say(t, err, "posts: the content is JSON lines, and data.unit is of text files; expected none")
}

// linked is an archive of a text file of ann and one of bob, and something else in between.
func linked(t *testing.T, other tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var errs []error
	for _, head := range []tar.Header{{Typeflag: tar.TypeReg, Name: "ann/a.txt", Size: 5}, other, {Typeflag: tar.TypeReg, Name: "bob/a.txt", Size: 5}} {
		errs = append(errs, w.WriteHeader(&head))
		if head.Size > 0 {
			_, err := w.Write([]byte("hello"))
			errs = append(errs, err)
		}
	}
	must.Do(t, errors.Join(append(errs, w.Close())...))
	return out.Bytes()
}

// A link in an archive in place of a text would be missing silently.
func TestLinksToTextsInAnArchiveAreFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		other tar.Header
		fault bool
	}{
		{tar.Header{Typeflag: tar.TypeLink, Name: "ann/b.txt", Linkname: "ann/a.txt"}, true},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "ann/b.txt", Linkname: "a.txt"}, true},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "carroll", Linkname: "../carroll"}, true},
		{tar.Header{Typeflag: tar.TypeFifo, Name: "ann/b.txt"}, true},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "ann/b.pdf", Linkname: "a.pdf"}, false},
		{tar.Header{Typeflag: tar.TypeLink, Name: "ann/.b.txt", Linkname: "ann/a.txt"}, false},
		{tar.Header{Typeflag: tar.TypeDir, Name: "ann/b.txt"}, false},
	} {
		data := linked(t, c.other)
		if _, err := readAs(t, Reading{}, data); (err != nil) != c.fault || err != nil && !strings.HasPrefix(err.Error(), "posts: "+c.other.Name+" is a link or another special file") {
			t.Errorf("%+v: %v; want a fault: %v", c.other, err, c.fault)
		}
		got, err := readAs(t, Reading{Origin: Origin{SkipFaults: true}}, data)
		if err != nil || !slices.Equal(lines(got), []string{"ann: hello", "bob: hello"}) {
			t.Errorf("%+v: %q, %v; want the files beside it", c.other, lines(got), err)
		}
	}
}

// An archive of one folder, made beside it, would make one user of all.
func TestArchiveOfOneFolderIsRejected(t *testing.T) {
	t.Parallel()
	const want = "all text files stand in one folder, letters, and would be one user's"
	for _, skip := range []bool{false, true} {
		reading := Reading{Origin: Origin{SkipFaults: skip}}
		for _, names := range [][2]string{{"letters/ann.txt", "letters/bob.txt"}, {"./letters/ann/a.txt", "./letters/bob/b.txt"}} {
			if _, err := readAs(t, reading, []byte(tarred(t, names[0], "hello", names[1], "there"))); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q, faults skipped: %v: %v", names, skip, err)
			}
		}
	}
	if got, err := readAs(t, Reading{}, []byte(tarred(t, "ann/all.txt", "hello\nthere"))); err != nil || len(got) != 2 {
		t.Errorf("one file of one user: %q, %v", lines(got), err)
	}
}

// A tar archive that ends between two files is cut as one that ends within a file is.
func TestTruncatedArchiveIsReportedAtAnyOffset(t *testing.T) {
	t.Parallel()
	whole := tarred(t, "ann.txt", "hello\n", "bob.txt", strings.Repeat("x ", 256), "cid.txt", "", "dan.txt", "bye")
	for at := 512; at < len(whole)-1024; at += 256 {
		if _, err := readAs(t, Reading{}, []byte(whole[:at])); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("cut at byte %d of %d: %v", at, len(whole), err)
		}
	}
	if _, err := readAs(t, Reading{}, []byte(whole)); err != nil {
		t.Error(err)
	}
}
