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
	at   int64  // what was read
	end  []byte // of what was read: other bytes in this place are those of another file
}

// remembered is how much of its end a follower remembers, in bytes.
const remembered = 4 << 10

// follow follows a file from where it ends now.
func (w *Workspace) follow(name string) (*follower, error) {
	x := &follower{root: w.root, name: name}
	return x, x.read(func([]byte) error { return nil })
}

// read hands over whole lines that are new.
func (x *follower) read(more func(lines []byte) error) error {
	return x.open(func(f *os.File) error {
		for {
			part, err := x.next(f)
			if err != nil {
				return err
			}
			whole := bytes.LastIndexByte(part, '\n') + 1
			switch {
			case whole == 0 && len(part) == maxLine:
				return &LongLineError{x.name}
			case whole == 0:
				return nil
			}
			if err := x.take(part[:whole], more); err != nil {
				return err
			}
		}
	})
}

// rest hands over what stands after the last whole line.
func (x *follower) rest(more func(lines []byte) error) error {
	return x.open(func(f *os.File) error {
		part, err := x.next(f)
		if err != nil || len(part) == 0 {
			return err
		}
		return x.take(part, more)
	})
}

// open opens the file, if it is there, and finds out whether it is still the one that was read.
func (x *follower) open(then func(*os.File) error) error {
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
	return then(f)
}

func (x *follower) next(f *os.File) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, x.at, maxLine))
}

func (x *follower) take(part []byte, more func(lines []byte) error) error {
	x.at += int64(len(part))
	x.end = bytes.Clone(part[max(0, len(part)-remembered):])
	return more(part)
}
