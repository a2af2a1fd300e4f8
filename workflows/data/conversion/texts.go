package conversion

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/tasks/datasets/forms"
)

// TextFiles describes a folder of text files.
type TextFiles struct {
	// Folder has a folder for each user, with files at any depth, or only files, one for
	// each user.
	Folder string
	// Ending of the files that are read; other and hidden files are left out.
	Ending string
	Unit   forms.Unit
	// SkipCorrupt leaves examples out that are not UTF-8, and counts them.
	SkipCorrupt bool
}

// TextSummary describes the text files found.
type TextSummary struct {
	Files    int `json:"files"`
	Users    int `json:"users"`
	Examples int `json:"examples"`
	// Empty users have no example.
	Empty int `json:"empty_users,omitempty"`
	// Skipped examples are not UTF-8; FirstSkipped has the places of the first ones.
	Skipped      int      `json:"skipped"`
	FirstSkipped []string `json:"first_skipped,omitempty"`
}

// maxText bounds an example, in bytes: the default limit of a line of a source.
const maxText = 1 << 20

// Texts writes the texts of a folder as JSON lines of user and text: files in byte order of their
// paths, so that the same folder gives the same bytes. A user has the name of the folder or of
// the file, without its ending.
func Texts(f TextFiles, to io.Writer) (*TextSummary, error) {
	paths, nested, err := f.find()
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(to, 1<<16)
	c := textConverter{TextFiles: f, lines: json.NewEncoder(buffered), users: map[string]int{}}
	c.lines.SetEscapeHTML(false)
	for _, p := range paths {
		user := strings.TrimSuffix(p, f.Ending)
		if nested {
			user, _, _ = strings.Cut(p, "/")
		}
		c.users[user] += 0
		if err := c.file(p, user); err != nil {
			return nil, err
		}
	}
	if c.found.Examples == 0 {
		return nil, fmt.Errorf("%s: %d files have no text; expected at least one example", f.Folder, len(paths))
	}
	c.found.Files, c.found.Users = len(paths), len(c.users)
	for _, n := range c.users {
		if n == 0 {
			c.found.Users--
			c.found.Empty++
		}
	}
	return &c.found, buffered.Flush()
}

// find lists the files, by paths from the folder, with slashes; nested reports that they are
// in subfolders.
func (f *TextFiles) find() (paths []string, nested bool, err error) {
	var loose []string
	err = fs.WalkDir(os.DirFS(f.Folder), ".", func(p string, d fs.DirEntry, err error) error {
		hidden := p != "." && strings.HasPrefix(path.Base(p), ".")
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || d.IsDir() || !strings.HasSuffix(p, f.Ending):
			return nil
		case !utf8.ValidString(p):
			return fmt.Errorf("%q: the name is not UTF-8; rename the file", p)
		}
		if paths = append(paths, p); !strings.Contains(p, "/") {
			loose = append(loose, p)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.Folder, err)
	}
	if len(paths) == 0 {
		return nil, false, fmt.Errorf("%s: no file ends in %q; expected a folder with a file, or a folder of files, for each user: name another by --ending", f.Folder, f.Ending)
	}
	nested = len(loose) < len(paths)
	if nested && len(loose) > 0 {
		return nil, false, fmt.Errorf("%s: the file %s stands beside folders; expected a folder for each user, or a file for each, not both", f.Folder, loose[0])
	}
	slices.Sort(paths)
	return paths, nested, nil
}

// textConverter is one conversion of text files.
type textConverter struct {
	TextFiles
	lines *json.Encoder
	users map[string]int // number of examples
	found TextSummary
}

// textLine is a line of a source of texts.
type textLine struct {
	User string `json:"user"`
	Text string `json:"text"`
}

// file writes the examples of a file.
func (c *textConverter) file(name, user string) error {
	file, err := os.Open(filepath.Join(c.Folder, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer file.Close()
	for e, err := range forms.Examples(file, c.Unit, maxText) {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case e.TooLong:
			return c.tooLong(name, e.Line)
		}
		if err := c.add(name, e.Line, user, e.Text); err != nil {
			return err
		}
	}
	return nil
}

func (c *textConverter) tooLong(name string, line int) error {
	return fmt.Errorf("%s, line %d: the %s has more than %d bytes; expected shorter ones: take another --unit, or cut it", name, line, c.Unit, maxText)
}

// add writes an example that begins at a line of a file.
func (c *textConverter) add(name string, line int, user string, text []byte) error {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 { // zero bytes indicate UTF-16
		return c.skip(fmt.Sprintf("%s, line %d: the %s is not UTF-8", name, line, c.Unit))
	}
	c.found.Examples++
	c.users[user]++
	return c.lines.Encode(textLine{user, string(text)})
}

// skip counts a fault, or returns it.
func (c *textConverter) skip(fault string) error {
	if !c.SkipCorrupt {
		return fmt.Errorf("%s; convert it, or leave such out by --skip-corrupt", fault)
	}
	if c.found.Skipped++; c.found.Skipped <= maxSkippedNamed {
		c.found.FirstSkipped = append(c.found.FirstSkipped, fault)
	}
	return nil
}
