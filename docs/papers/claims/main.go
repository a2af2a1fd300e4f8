// Command claims prints the tables of the pages about the papers from the results next to them:
// the paper's claim, the result of our runs, and the verdict. With -rewrite it writes the tables
// into the pages. A test compares them with the pages.
//
//	go run ./docs/papers/claims
//	go run ./docs/papers/claims -rewrite
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"coalmine/internal/clone"
)

// studies are the papers, by the names of their pages and of the folders with their results.
var studies = []string{"thakkar-2020", "carlini-2019", "augenstein-2020", "orekondy-2018"}

func main() {
	log.SetFlags(0)
	rewrite := flag.Bool("rewrite", false, "write the tables into the pages")
	flag.Parse()
	root, ok := clone.Root()
	if !ok {
		log.Fatal("claims: run this command inside a clone of the repository")
	}
	for _, name := range studies {
		if err := run(filepath.Join(root, "docs", "papers", name), *rewrite); err != nil {
			log.Fatalf("claims: %s: %v", name, err)
		}
	}
}

func run(folder string, rewrite bool) error {
	page, err := os.ReadFile(folder + ".md")
	if err != nil {
		return err
	}
	made, err := pageOf(folder, page)
	if err != nil {
		return err
	}
	if rewrite {
		return os.WriteFile(folder+".md", made, 0o644)
	}
	for _, section := range sections.FindAll(made, -1) {
		fmt.Printf("%s\n\n", section)
	}
	return nil
}

// sections are the generated parts of a page: a table of claims, or the rows of an experiment.
// Further words name other texts with a column of results.
var sections = regexp.MustCompile(`(?s)<!-- (claims|table)((?: [a-z0-9]+)*): made of results -->\n.*?<!-- end -->`)

// pageOf returns the page with its sections generated from the results in the folder.
func pageOf(folder string, page []byte) (made []byte, err error) {
	s := &study{folder: folder, tables: map[string]table{}, printed: map[string]bool{}}
	made = sections.ReplaceAllFunc(page, func(section []byte) []byte {
		match := sections.FindSubmatch(section)
		kind, words, text := string(match[1]), string(match[2]), ""
		make := s.claims
		if kind == "table" {
			make = s.means
		}
		if err == nil {
			text, err = make(strings.Fields(words))
		}
		return fmt.Appendf(nil, "<!-- %s%s: made of results -->\n%s<!-- end -->", kind, words, text)
	})
	return made, err
}
