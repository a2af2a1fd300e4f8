package storage

import (
	"fmt"
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

// nameNumber returns the number at the end of a numbered name, or false for any
// other name.
func nameNumber(name string) (int, bool) {
	last := name[strings.LastIndexByte(name, '/')+1:]
	n, err := strconv.Atoi(last)
	return n, err == nil && n >= 0 && fmt.Sprintf("%010d", n) == last
}
