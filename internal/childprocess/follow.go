package childprocess

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxLine is the longest line that is read, and the most that is read at a time, in bytes.
const maxLine = 1 << 20

// LongLineError is a line of a file that is longer than any may be.
type LongLineError struct{ Name string }

func (e *LongLineError) Error() string {
	return fmt.Sprintf("%s has a line of more than %d bytes", e.Name, maxLine)
}

// follower reads a file that grows, line by line.
type follower struct {
	root *os.Root
	name string
	at   int64  // the bytes read
	end  []byte // of the bytes read: other bytes in this place are those of another file
}

// remembered is how much of its end a follower remembers, in bytes.
const remembered = 4 << 10

// follow follows a file from where it ends now.
func (w *Workspace) follow(name string) (*follower, error) {
	x := &follower{root: w.root, name: name}
	return x, x.read(false, func([]byte) error { return nil })
}

// read hands over whole lines that are new; with rest set also the bytes after the last of them.
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
		x.at, x.end = 0, nil // it was written anew
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
