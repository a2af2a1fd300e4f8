// Package attempts is what coordinator and workers say to each other about tasks:
// an Attempt is one planned execution of a spec, an Outcome what came of it, and a
// Leader the coordinator that sent it. How they travel is in wire.go.
//
// Kinds of task know nothing of it: the same spec gives the same bytes, whichever
// attempt it is.
package attempts
