// Package attempts holds the messages between coordinator and workers about tasks:
// an Attempt is one planned execution of a spec, an Outcome its result, and a Leader the
// coordinator that sent it. wire.go has their encoding.
//
// Kinds of task do not depend on it: the same spec gives the same bytes in every attempt.
package attempts
