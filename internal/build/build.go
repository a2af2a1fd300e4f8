// Package build identifies this build of Coalmine: its version, and the checks that are compiled in.
package build

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"runtime/debug"
	"time"
)

// Version is the version of this source. No other file has it; docs/versions.md says when it changes.
const Version = "0.9.0"

// Platforms lists the platforms of release builds as system/processor.
var Platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// ReleaseTags are the tags of a release, as in the Makefile.
const ReleaseTags = "grpcnotrace"

// Info describes a build.
type Info struct {
	Version string `json:"version"`
	// Commit is the full id of the commit in git, "" outside a checkout.
	Commit string `json:"commit,omitempty"`
	// Time is when the commit was made, zero outside a checkout.
	Time time.Time `json:"commit_time,omitzero"`
	// Modified reports whether files differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// Tags are the tags of the build, separated by commas.
	Tags string `json:"tags,omitempty"`
}

// Read returns the description of this build.
func Read() Info {
	info := Info{Version: Version}
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, s := range built.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Time, _ = time.Parse(time.RFC3339, s.Value) // zero if a build tool wrote another form
		case "vcs.modified":
			info.Modified = s.Value == "true"
		case "-tags":
			info.Tags = s.Value
		}
	}
	return info
}

// String returns the version and the beginning of the commit as a semantic version with build
// metadata: "0.9.0+3f2a9c41d07e", with ".modified" behind it if files differed from the commit.
func (i Info) String() string {
	text := i.Version
	if i.Commit != "" {
		text += "+" + i.Commit[:min(12, len(i.Commit))]
	}
	if i.Modified {
		text += ".modified"
	}
	return text
}

//go:generate go run coalmine/scripts/notices -text ../../NOTICE -embedded notice.gz

//go:embed notice.gz
var notice []byte

// Notice returns the licences of the modules that releases link, for all platforms: the file NOTICE.
func Notice() (string, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(notice))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(unpacked)
	return string(text), err
}
