package queue

import "strings"

// Keys of this package. Two deployments share a Redis by using two databases.
const (
	workersKey = "coalmine:workers" // set of worker ids
	reportsKey = "coalmine:reports" // list, oldest first
	probeKey   = "coalmine:probe"   // see Conn.Ping
)

func workerKey(id string) string      { return "coalmine:worker:" + id }
func stopKey(id string) string        { return "coalmine:stop:" + id }
func drainKey(id string) string       { return "coalmine:drain:" + id }
func leaseKey(name string) string     { return "coalmine:lease:" + name }
func publishedKey(name string) string { return "coalmine:published:" + name }
func enderKey(id string) string       { return "coalmine:ender:" + id }
func wakeKey(class string) string     { return "coalmine:wake:" + class }

const queuePrefix = "coalmine-"

// queueName is asynq's name for a class.
func queueName(class string) string { return queuePrefix + class }

// isQueue reports whether an asynq queue belongs to this package.
func isQueue(name string) bool { return strings.HasPrefix(name, queuePrefix) }
