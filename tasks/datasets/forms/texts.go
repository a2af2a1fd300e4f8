package forms

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// TextEnd is the name ending of text files.
const TextEnd = ".txt"

// texts yields the examples of the text files in a tar archive, in order. Examples of
// "ann/2019/letters.txt" and of "ann.txt" belong to ann. Other files and hidden files are skipped.
// The group of a row is its file.
func (r *reader) texts() error {
	buffered := bufio.NewReader(r.content)
	head, _ := buffered.Peek(tarBlock) // a later read returns the error again
	isTar, content := isTar(head), &blockReader{Reader: buffered}
	archive, entries, of := tar.NewReader(content), 0, folders{}
	for ; ; entries++ {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.entry(archive, head, &of)
		}
		if err != nil {
			return damagedArchive(err, entries == 0 && !isTar)
		}
	}
	switch {
	case entries == 0 && !isTar:
		return errNoTar
	case content.zeros < tarBlock:
		return damaged("the tar archive ends without the empty blocks that are its end: it is cut short; make it again")
	case of.files == 0:
		return mistaken("the content is a tar archive without a file that ends in %s; expected such files, or unpack it: a directory of data files is a source", TextEnd)
	case of.files > 1 && of.single:
		return mistaken("all text files stand in one folder, %[1]s, and would be one user's; expected a folder or a file for each user: name %[1]s itself as the source, or make the archive in it (tar -C %[1]s -cf letters.tar .); if all are one user's, join them into one file", of.first)
	}
	_, err := io.Copy(io.Discard, buffered) // limits also apply after the archive's end
	return err
}

// entry yields the examples of a file of an archive, if it is a text file.
func (r *reader) entry(archive *tar.Reader, head *tar.Header, of *folders) error {
	name := path.Clean(head.Name)
	switch {
	case head.Typeflag == tar.TypeReg && IsText(name):
		of.add(name)
		return r.textFile(archive, name)
	case mayBeTexts(head, name):
		return r.skip("", 0, fmt.Errorf("%s is a link or another special file, which is not followed; expected the file itself: tar --dereference --hard-dereference makes archives without links", name))
	}
	return nil
}

// mayBeTexts reports whether an entry that is not a file stands for a text file or a folder.
func mayBeTexts(head *tar.Header, name string) bool {
	switch head.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeXGlobalHeader:
		return false
	case tar.TypeSymlink:
		return IsText(name) || IsText(name+TextEnd) && path.Ext(head.Linkname) == ""
	}
	return IsText(name)
}

// folders holds the top-level folders of an archive that contain text files.
type folders struct {
	files  int
	first  string
	single bool // only the first, and no text file next to it
}

func (f *folders) add(name string) {
	folder, _, nested := strings.Cut(name, "/")
	if f.files++; f.files == 1 {
		f.first, f.single = folder, true
	}
	f.single = f.single && nested && folder == f.first
}

// tarBlock is the size of the blocks of a tar archive. Empty blocks end it.
const tarBlock = 512

// isTar looks for the mark of an archive in its first block; older archives have none.
func isTar(head []byte) bool { return len(head) == tarBlock && string(head[257:262]) == "ustar" }

// blockReader inspects the blocks of an archive while they are read.
type blockReader struct {
	io.Reader
	zeros int // bytes of zero at the end of the bytes read
}

func (b *blockReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if kept := len(bytes.TrimRight(p[:n], "\x00")); kept > 0 {
		b.zeros = n - kept
	} else {
		b.zeros += n
	}
	return n, err
}

func (r *reader) textFile(content io.Reader, name string) error {
	user, _, _ := strings.Cut(strings.TrimSuffix(name, TextEnd), "/")
	unit := name + ", line"
	for e, err := range Examples(content, r.Unit, r.MaxRow) {
		switch {
		case err != nil:
			return err
		case e.TooLong:
			err = r.skip(unit, e.Line, fmt.Errorf("the %s is longer than %d bytes, which is the limit; take another data.unit, or raise data.limits.line", r.Unit.name(), r.MaxRow))
		case bytes.IndexByte(e.Text, 0) >= 0:
			err = r.skip(unit, e.Line, fmt.Errorf("the %s has a byte 0, as text in UTF-16 has; convert the file to UTF-8", r.Unit.name()))
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

// errNoTar reports a file that is not a tar archive.
var errNoTar = mistaken("the content is no tar archive; expected one of text files, or a directory of them: a text file stands in one, and its name is the user's")

// damagedArchive reports whether an error is a fault of the archive, or of a file that is not an
// archive, rather than an error of its reader.
func damagedArchive(err error, other bool) error {
	if err != io.ErrUnexpectedEOF && !errors.Is(err, tar.ErrHeader) { // a wrapped error comes from a compressed file and explains itself
		return err
	}
	if other {
		return errNoTar
	}
	return damaged("the tar archive is cut short or damaged (%w); make it again", err)
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
