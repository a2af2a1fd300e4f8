package childprocess

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unicode"

	"coalmine/internal/secrets"
)

// maxLine is the limit on a line, and on each read, in bytes.
const maxLine = 1 << 20

// LongLineError reports a line of a file that exceeds the limit.
type LongLineError struct{ Name string }

func (e *LongLineError) Error() string {
	return fmt.Sprintf("%s has a line of more than %d bytes", e.Name, maxLine)
}

// follower reads a growing file line by line.
type follower struct {
	root *os.Root
	name string
	at   int64  // number of bytes read
	end  []byte // last of the bytes read, to detect that the file was replaced
}

// remembered is the length of follower.end, in bytes.
const remembered = 4 << 10

// follow follows a file from its present end.
func (w *Workspace) follow(name string) (*follower, error) {
	x := &follower{root: w.root, name: name}
	return x, x.read(false, func([]byte) error { return nil })
}

// read passes on new lines; with rest set, also the bytes after the last line break.
func (x *follower) read(rest bool, more func(lines []byte) error) error {
	f, _, err := openRegular(x.root, x.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	found := make([]byte, len(x.end))
	if _, err := f.ReadAt(found, x.at-int64(len(x.end))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(found, x.end) {
		x.at, x.end = 0, nil // it was rewritten
	}
	for {
		part, err := io.ReadAll(io.NewSectionReader(f, x.at, maxLine))
		if err != nil {
			return err
		}
		whole := bytes.LastIndexByte(part, '\n') + 1
		if whole == 0 && len(part) == maxLine {
			return &LongLineError{x.name}
		}
		if whole == 0 && rest {
			whole = len(part)
		}
		if whole == 0 {
			return nil
		}
		x.at += int64(whole)
		x.end = bytes.Clone(part[max(0, whole-remembered):whole])
		if err := more(part[:whole]); err != nil {
			return err
		}
	}
}

const (
	tailBytes = 8 << 10
	tailLines = 6
	lineRunes = 300
)

// tail keeps the end of the bytes written.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps the end of b. It never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-tailBytes):]...)
	if more := len(t.kept) - tailBytes; more > 0 {
		t.kept = append(t.kept[:0], t.kept[more:]...)
	}
	return len(b), nil
}

// lines returns the last lines that are not empty, without control characters.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range bytes.Lines(t.kept) {
		if text := Printable(string(line), lineRunes); text != "" {
			lines = append(lines, text)
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// Printable returns text of an external program on one line of at most most characters, without
// control characters and passwords of URLs.
func Printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, secrets.RedactPasswords(strings.ToValidUTF8(text, "?")))
	if runes := []rune(strings.TrimRight(text, " ")); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return strings.TrimRight(text, " ")
}
