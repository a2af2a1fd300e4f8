package queue

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Errors that Open and Explain wrap, to be tested with errors.Is. No error of Redis fails a
// task: running processes wait until it passes; a starting process refuses the errors that
// do not pass by themselves.
var (
	// ErrUnreachable: no server answers at the address, or none that can serve now.
	ErrUnreachable = errors.New("redis is not reachable")
	// ErrUnsuitable: the server answers, but cannot carry the queue.
	ErrUnsuitable = errors.New("redis is not suitable")
	// ErrNoWrites: the server can be read, but currently accepts no writes.
	ErrNoWrites = errors.New("redis takes no writes")
)

// KnownError is a recognized error of Redis.
type KnownError struct {
	mark          error
	cause, remedy string
	err           error
}

func (t *KnownError) Error() string {
	return fmt.Sprintf("%v: %s: %s: %v", t.mark, t.cause, t.remedy, t.err)
}

// Unwrap returns one of the errors above and the server's error.
func (t *KnownError) Unwrap() []error { return []error{t.mark, t.err} }

// Brief returns the message without the remedy and the server's error.
func (t *KnownError) Brief() string { return t.mark.Error() + ": " + t.cause }

// meaning is the meaning of an error of Redis. Callers decide on the mark.
type meaning struct {
	mark          error
	cause, remedy string
}

const (
	oneServer = "name one server, or the Sentinels of a replicated one (redis-sentinel://host,host?master=NAME): the queue needs all its keys in one place"
	minACL    = "give it the rights that docs/operations.md lists under Least rights in Redis"
	goodLogin = "put redis://user:password@host, or password_file=FILE, into the URL; such a file is read again for each connection"
)

// meanings maps the first word of an answer to the error's meaning.
var meanings = map[string]meaning{
	"LOADING":    {ErrUnreachable, "it is still loading its data", "try again in a moment"},
	"BUSY":       {ErrUnreachable, "a script keeps it busy", "wait for it, or end it by SCRIPT KILL"},
	"MASTERDOWN": {ErrUnreachable, "it is a replica that has lost its master", "bring the master back, or name another server"},
	"UNBLOCKED":  {ErrUnreachable, "it has changed its role", "nothing, if it is the master again soon"},
	"EXECABORT":  {ErrUnreachable, "it refused a command of a transaction", "look for the reason in its log"},
	"UNKILLABLE": {ErrUnreachable, "a script that has written keeps it busy", "wait for it"},

	"MISCONF":    {ErrNoWrites, "it cannot save its data to disk", "make room on its disk or repair it, or have it keep nothing (CONFIG SET save \"\"; CONFIG SET appendonly no), which the queue does not need"},
	"READONLY":   {ErrNoWrites, "it is a read-only replica", "name its master, or the Sentinels (redis-sentinel://host,host?master=NAME)"},
	"OOM":        {ErrNoWrites, "its memory is used up", "raise its maxmemory, or remove the data of other programs"},
	"NOREPLICAS": {ErrNoWrites, "it has fewer replicas than it wants for writes", "bring them back, or lower min-replicas-to-write"},
	"NOPERM":     {ErrNoWrites, "its user lacks the right to a command or a key of the queue", minACL},

	"NOAUTH":    {ErrUnsuitable, "it refuses the login", goodLogin},
	"WRONGPASS": {ErrUnsuitable, "it refuses the login", goodLogin},
	"DENIED":    {ErrUnsuitable, "it is in protected mode", "give it a password, or bind it to a private address"},
	"WRONGTYPE": {ErrUnsuitable, "another program uses the keys of the queue", "use a separate database (redis://host/1)"},
	"NOPROTO":   {ErrUnsuitable, "it uses another version of the protocol", "use Redis 6.2 or newer"},

	"MOVED":       {ErrUnsuitable, isCluster, oneServer},
	"ASK":         {ErrUnsuitable, isCluster, oneServer},
	"CROSSSLOT":   {ErrUnsuitable, isCluster, oneServer},
	"TRYAGAIN":    {ErrUnsuitable, isCluster, oneServer},
	"CLUSTERDOWN": {ErrUnsuitable, isCluster, oneServer},
}

const isCluster = "it is a node of a Redis Cluster"

// phrases maps parts of answers that begin with ERR to the error's meaning.
var phrases = map[string]meaning{
	"max number of clients reached": {ErrUnreachable, "it has its maximum number of clients", "raise its maxclients, or start fewer workers"},
	"DB index is out of range":      {ErrUnsuitable, "it has no database of that number", "take a lower one, or raise its databases"},
	"unknown command":               {ErrUnsuitable, "it does not know a command of the queue", "use Redis 6.2 or newer, with no command renamed"},
	"invalid password":              {ErrUnsuitable, "it refuses the login", goodLogin},
	"without any password":          {ErrUnsuitable, "it has no password", "take the password out of the URL"},
}

// code matches an error code of the table in an answer.
var code = regexp.MustCompile(`\b[A-Z]{3,}\b`)

// Explain returns a *KnownError for a recognized error, and otherwise the error itself.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, explained := errors.AsType[*KnownError](err); explained {
		return err
	}
	if m, ok := meaningOf(err.Error()); ok {
		return &KnownError{m.mark, m.cause, m.remedy, err}
	}
	return err
}

func meaningOf(text string) (meaning, bool) {
	for _, word := range code.FindAllString(text, -1) {
		if m, ok := meanings[word]; ok {
			return m, true
		}
	}
	for phrase, m := range phrases {
		if strings.Contains(text, phrase) {
			return m, true
		}
	}
	return meaning{}, false
}
