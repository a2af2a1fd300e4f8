package forms

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// TextEnd is the end of the names of text files.
const TextEnd = ".txt"

// texts yields the examples of text files, which a tar archive has, in its order. Those of
// "ann/2019/letters.txt" and of "ann.txt" are ann's. Other files, and hidden ones, are left out.
// The group of a row is its file.
func (r *reader) texts() error {
	archive := tar.NewReader(r.content)
	some := false
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damagedArchive(err)
		}
		name := path.Clean(head.Name)
		if head.Typeflag != tar.TypeReg || !IsText(name) {
			continue
		}
		some = true
		if err := r.textFile(archive, name); err != nil {
			return damagedArchive(err)
		}
	}
	if !some {
		return mistaken("the content is a tar archive without a file that ends in %s; expected such files, or unpack it: a directory of data files is a source", TextEnd)
	}
	_, err := io.Copy(io.Discard, r.content) // whoever counts its bytes has all of them
	return err
}

// textFile yields the examples of one file.
func (r *reader) textFile(content io.Reader, name string) error {
	user, _, _ := strings.Cut(strings.TrimSuffix(name, TextEnd), "/")
	unit := name + ", line"
	for e, err := range Examples(content, r.Unit, r.MaxRow) {
		switch {
		case err != nil:
			return err
		case e.TooLong:
			err = r.skip(unit, e.Line, fmt.Errorf("the %s is longer than %d bytes, which is the limit; take another data.unit, or raise data.limits.line", r.Unit.name(), r.MaxRow))
		default:
			text := string(e.Text)
			err = r.row(Row{User: &user, Text: &text, Group: &name, Unit: unit, Number: e.Line})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// damagedArchive tells a fault of the archive from one of whoever reads it.
func damagedArchive(err error) error {
	if err == io.ErrUnexpectedEOF || errors.Is(err, tar.ErrHeader) { //nolint:errorlint // a wrapped one is of a compressed file, which says so itself
		return damaged("the tar archive is cut short or damaged (%w); make it again", err)
	}
	return err
}

// IsText reports whether a file, by its path with slashes, is a text file of a user: no part of
// the path is hidden.
func IsText(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return false
		}
	}
	return strings.HasSuffix(name, TextEnd) && path.Base(name) != TextEnd
}
