package childprocess

import (
	"bytes"
	"strings"
	"sync"
	"unicode"

	"coalmine/internal/secrets"
)

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
