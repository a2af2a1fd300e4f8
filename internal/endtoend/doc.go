// Package endtoend holds tests of coalmine as its users meet it: the real
// binary, started as processes of their own, on real servers.
//
// The cluster of compose.yaml runs here as far as it can without containers: the
// same processes with the same arguments and environment, with only host names,
// ports and paths replaced. Its results are compared with those of the same
// experiment in one process, byte by byte. Other tests kill and interrupt the
// one-process form, repeat it, and feed it bad input.
//
// Tests whose servers are not installed are skipped (see package testserver).
package endtoend
