package forms

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
	"slices"
	"unicode"
)

// Unit is the part of a text file that makes one example. Empty means Lines.
type Unit string

// Units of text files.
const (
	Lines      Unit = "line"
	Paragraphs Unit = "paragraph" // the text between empty lines, its lines joined by spaces
	WholeFiles Unit = "file"      // likewise, without empty lines
)

// Choices lists the units for an experiment file.
func (Unit) Choices() []string {
	return []string{string(Lines), string(Paragraphs), string(WholeFiles)}
}

// Known reports whether the unit is valid.
func (u Unit) Known() bool { return slices.Contains(u.Choices(), string(u.name())) }

func (u Unit) name() Unit { return cmp.Or(u, Lines) }

// Example is a part of a text file.
type Example struct {
	// Line at which it begins, from 1.
	Line int
	// Text is not empty, and valid until the next example; it may not be UTF-8.
	Text []byte
	// TooLong reports whether the example exceeds the limit on bytes; Text is then nil.
	TooLong bool
}

// Examples yields the examples of a text file, each of at most the given number of bytes. Spaces
// around lines, empty lines and a byte order mark are left out. An error of the content ends the
// examples.
func Examples(content io.Reader, unit Unit, longest int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		s := splitter{lines: bufio.NewReader(content), longest: longest}
		for {
			line, err := s.line()
			switch {
			case errors.Is(err, io.EOF):
				s.flush(yield)
				return
			case err != nil:
				yield(Example{}, err)
				return
			case unit.ends(&line) && !s.flush(yield):
				return
			}
			s.add(&line)
		}
	}
}

// ends reports whether an example ends before a line.
func (u Unit) ends(line *Example) bool {
	return u.name() == Lines || u == Paragraphs && len(line.Text) == 0 && !line.TooLong
}

// splitter collects the lines of an example.
type splitter struct {
	lines   *bufio.Reader
	longest int
	read    []byte // the newest line
	number  int    // number of the newest line
	open    Example
}

// line reads the next line, which may be empty, without spaces around it; io.EOF after the last.
func (s *splitter) line() (Example, error) {
	s.number++
	const around = 8 // for a byte order mark and the line's end
	line := Example{Line: s.number}
	var err error
	s.read, line.TooLong, err = readLine(s.lines, s.read[:0], s.longest+around)
	if err != nil && (!errors.Is(err, io.EOF) || len(s.read) == 0 && !line.TooLong) {
		return line, err
	}
	if s.number == 1 {
		s.read = bytes.TrimPrefix(s.read, []byte("\ufeff"))
	}
	if line.Text = bytes.TrimFunc(s.read, unicode.IsSpace); line.TooLong || len(line.Text) > s.longest {
		line.Text, line.TooLong = nil, true
	}
	return line, nil
}

// readLine appends a line with its end to a buffer. Of a line of more than longest bytes it keeps only the
// last ones.
func readLine(lines *bufio.Reader, read []byte, longest int) (_ []byte, tooLong bool, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var piece []byte
		piece, err = lines.ReadSlice('\n')
		if read = append(read, piece...); len(read) > longest {
			tooLong, read = true, read[:0]
		}
	}
	return read, tooLong, err
}

func (s *splitter) add(line *Example) {
	switch {
	case s.empty():
		s.open.Line = line.Line
	case len(line.Text) > 0:
		s.open.Text = append(s.open.Text, ' ')
	}
	s.open.Text = append(s.open.Text, line.Text...)
	if s.open.TooLong = s.open.TooLong || line.TooLong || len(s.open.Text) > s.longest; s.open.TooLong {
		s.open.Text = s.open.Text[:0]
	}
}

// flush yields the open example, if it is not empty, and begins another.
func (s *splitter) flush(yield func(Example, error) bool) bool {
	more := s.empty() || yield(s.open, nil)
	s.open = Example{Text: s.open.Text[:0]}
	return more
}

func (s *splitter) empty() bool { return len(s.open.Text) == 0 && !s.open.TooLong }
