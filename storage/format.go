package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"coalmine/internal/build"
)

// ErrNewer is wrapped by errors about an intact record in a format that a newer build introduced.
var ErrNewer = errors.New("its format is newer than this build")

// Format is the format of one kind of record. Its number rises whenever an older build could
// misread new records: when a new field changes the meaning of others, or must not be lost.
type Format struct {
	// Name is the displayed name of the records: "commit".
	Name string
	// Number is the format that this build writes. It reads all formats up to Number.
	Number int
}

// Stamp is the part of a record that names its format and the build that wrote it. Records
// without a stamp have format 1.
type Stamp struct {
	Format int    `json:"format,omitempty"`
	Build  string `json:"build,omitempty"`
}

// String returns the stamp on one line: "1 v0.4.0".
func (s Stamp) String() string { return fmt.Sprintf("%d %s", s.Format, s.Build) }

// ParseStamp parses the output of String. Any other text gives the zero stamp.
func ParseStamp(text string) Stamp {
	number, build, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return Stamp{}
	}
	return Stamp{n, build}
}

// thisBuild is the version in the stamps of this build.
var thisBuild = sync.OnceValue(func() string { return build.Read().String() })

// Stamp returns the stamp of the records that this build writes.
func (f Format) Stamp() Stamp { return Stamp{f.Number, thisBuild()} }

// Check returns an error that wraps ErrNewer if this build cannot read a record with the stamp.
func (f Format) Check(s Stamp) error {
	if s.Format <= f.Number {
		return nil
	}
	return fmt.Errorf("%s: %w: it was written by coalmine %s in format %d, and coalmine %s reads formats up to %d; use coalmine %s or a newer build",
		f.Name, ErrNewer, orUnknown(s.Build), s.Format, thisBuild(), f.Number, orUnknown(s.Build))
}

// Explain completes the error for a record that cannot be decoded although this build supports
// its format.
func (f Format) Explain(s Stamp, err error) error {
	return fmt.Errorf("%s of format %d, written by coalmine %s, which coalmine %s cannot read: %w",
		f.Name, max(s.Format, 1), orUnknown(s.Build), thisBuild(), err)
}

// orUnknown returns the displayed name of a build. It escapes the name, which is untrusted.
func orUnknown(build string) string {
	if build == "" {
		return "of an unknown version"
	}
	return strings.Trim(fmt.Sprintf("%+.80q", build), `"`)
}

// stamped inserts the stamp of a format before the members of a JSON object.
func (f Format) stamped(object []byte) ([]byte, error) {
	if len(object) < 2 || object[0] != '{' {
		return nil, fmt.Errorf("%s cannot be encoded: it is no JSON object", f.Name)
	}
	stamp, err := json.Marshal(f.Stamp())
	if err != nil {
		return nil, err
	}
	if bytes.Equal(object, []byte("{}")) {
		return stamp, nil
	}
	return append(append(stamp[:len(stamp)-1], ','), object[1:]...), nil
}

// StampOf returns the stamp before the members of a JSON object.
func StampOf(object []byte) Stamp {
	s, _ := unstamped(object)
	return s
}

// unstamped removes the stamp, which precedes the other members, from a JSON object.
func unstamped(object []byte) (Stamp, []byte) {
	var s Stamp
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the brace
	for _, member := range []struct {
		name string
		into any
	}{{"format", &s.Format}, {"build", &s.Build}} {
		if name, _ := d.Token(); name != member.name || d.Decode(member.into) != nil {
			return Stamp{}, object
		}
	}
	rest := bytes.TrimPrefix(object[d.InputOffset():], []byte(","))
	return s, append([]byte{'{'}, rest...)
}

// The formats of the records that this package seals.
var (
	commitFormat     = Format{"commit", 1}
	logFormat        = Format{"entry of a run's log", 1}
	unfinishedFormat = Format{"record of an unfinished execution", 1}
	entryFormat      = Format{"entry of the library", 1}
	identityFormat   = Format{"identity of the store", 1}
	planFormat       = Format{"plan of a run", 1}
)
