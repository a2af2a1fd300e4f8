package storage

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The layout of a store. No name is a prefix directory of another one, because
// a directory on disk cannot be a file as well. Numbers have a fixed width, so
// that the byte order of names is their numeric order.
//
//	sources/<digest>            an imported input; cannot be recreated
//	library/<name>              an imported input by name, with its description
//	runs/<id>/spec              the submission
//	runs/<id>/log/<n>           later events of the run
//	runs/<id>/plan/<n>          the record of a plan of the run, the newest last
//	runs/<id>/planned/<digest>  a part of such a plan
//	commits/<key>               the record that makes a node done
//	blobs/<key>/<digest>        a node's outputs
//	logs/<run>/<key>/<attempt>  the output of an execution
//	unfinished/<key>/state      the state of a running execution
//	unfinished/<key>/<digest>   a file of that state
//	leader/<epoch>              the leader of an epoch, which may delete
//	leader/store                the identity of the store
//	leader/clock                an empty object, written to read the clock of the store
const (
	sourcesDir = "sources"
	libraryDir = "library"
	runsDir    = "runs"
	commitsDir = "commits"
	blobsDir   = "blobs"
	logsDir    = "logs"
	leaderDir  = "leader"

	unfinishedDir = "unfinished"

	identityName = leaderDir + "/store" // not a number, so not an epoch
	clockName    = leaderDir + "/clock"
)

func sourceName(d Digest) string          { return sourcesDir + "/" + d.String() }
func entryName(name string) string        { return libraryDir + "/" + name }
func specName(run string) string          { return runsDir + "/" + run + "/spec" }
func runLogDir(run string) string         { return runsDir + "/" + run + "/log" }
func runLogName(run string, n int) string { return numberedName(runLogDir(run), n) }
func planDir(run string) string           { return runsDir + "/" + run + "/plan" }
func plannedDir(run string) string        { return runsDir + "/" + run + "/planned" }
func planName(run string, n int) string   { return numberedName(planDir(run), n) }
func commitName(key Key) string           { return commitsDir + "/" + key.String() }
func blobDir(key Key) string              { return blobsDir + "/" + key.String() }
func blobName(key Key, d Digest) string   { return blobDir(key) + "/" + d.String() }
func taskLogDir(run string, k Key) string { return logsDir + "/" + run + "/" + k.String() }
func epochName(epoch int) string          { return numberedName(leaderDir, epoch) }
func unfinishedName(key Key) string       { return unfinishedDir + "/" + key.String() + "/state" }
func unfinishedFileName(key Key, d Digest) string {
	return unfinishedDir + "/" + key.String() + "/" + d.String()
}
func numberedName(dir string, n int) string { return fmt.Sprintf("%s/%010d", dir, n) }

// nameNumber returns the number at the end of a numbered name, or false for any other name.
func nameNumber(name string) (int, bool) {
	last := name[strings.LastIndexByte(name, '/')+1:]
	n, err := strconv.Atoi(last)
	return n, err == nil && n >= 0 && fmt.Sprintf("%010d", n) == last
}

// Check returns the error of a context that has ended, or of the first name that valid refuses: CheckName,
// CheckPrefix or CheckDir. Every operation of a driver begins with it.
func Check(ctx context.Context, valid func(string) error, names ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if err := valid(name); err != nil {
			return err
		}
	}
	return nil
}

// maxName is the longest object name, in bytes.
const maxName = 512

// CheckName returns an error that wraps ErrName unless name is a valid object name.
func CheckName(name string) error {
	if err := CheckPrefix(name); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: %.80q has an empty or relative segment", ErrName, name)
		}
	}
	return nil
}

// CheckPrefix returns an error that wraps ErrName unless an object name can start with prefix.
func CheckPrefix(prefix string) error {
	if len(prefix) > maxName {
		return fmt.Errorf("%w: %.80q... has %d bytes, at most %d are allowed", ErrName, prefix, len(prefix), maxName)
	}
	for i := range len(prefix) {
		if !isNameByte(prefix[i]) {
			return fmt.Errorf("%w: %.80q: only letters, digits and . _ - / are allowed", ErrName, prefix)
		}
	}
	return nil
}

// CheckDir returns an error that wraps ErrName unless dir is "", the root, or a
// valid directory of an object.
func CheckDir(dir string) error {
	if dir == "" {
		return nil
	}
	return CheckName(dir)
}

func isNameByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '.' || b == '_' || b == '-' || b == '/'
}

var runID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,80}$`)

// CheckRunID returns an error that wraps ErrName unless id is a valid run id: 1
// to 81 bytes of [a-z 0-9 . _ -], the first a letter or a digit.
func CheckRunID(id string) error {
	if !runID.MatchString(id) {
		return fmt.Errorf("%w: run id %.100q: want 1 to 81 of a-z, 0-9, '.', '_', '-', starting with a letter or digit", ErrName, id)
	}
	return nil
}
