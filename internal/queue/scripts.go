package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Scripts serve the rare cases only: the embedded server starts a Lua machine for
// each call. Commands on the path of every task are plain.

// Keys of this package. Two deployments share a Redis by using two databases.
const (
	workersKey = "coalmine:workers" // set of worker ids
	classesKey = "coalmine:classes" // set of the classes ever enqueued
	reportsKey = "coalmine:reports" // list, oldest first
)

func workerKey(id string) string      { return "coalmine:worker:" + id }
func stopKey(id string) string        { return "coalmine:stop:" + id }
func drainKey(id string) string       { return "coalmine:drain:" + id }
func leaseKey(name string) string     { return "coalmine:lease:" + name }
func publishedKey(name string) string { return "coalmine:published:" + name }
func enderKey(id string) string       { return "coalmine:ender:" + id }
func wakeKey(class string) string     { return "coalmine:wake:" + class }

// queueName is asynq's name for a class.
func queueName(class string) string { return "coalmine-" + class }

// The parts of asynq's key layout that the scripts below touch:
// asynq:{queue}:pending and active are lists of task ids, lease, archived and
// completed sorted sets of them, and t:<id> is a hash with the task.
func asynqKey(class, part string) string { return "asynq:{" + queueName(class) + "}:" + part }

// stateKeys are the keys that can hold the task id, for removeScript.
func stateKeys(class, id string) []string {
	keys := []string{asynqKey(class, "t:"+id)}
	for _, part := range []string{"pending", "active", "lease", "archived", "completed"} {
		keys = append(keys, asynqKey(class, part))
	}
	return keys
}

// state is a task's state in asynq, of which these matter here.
type state string

const (
	statePending state = "pending"
	stateActive  state = "active"
)

// removeScript removes the task ARGV[1] if its state is among the words of
// ARGV[2], or if that is "any", and returns the state in which it found it.
var removeScript = redis.NewScript(`
local state = redis.call("HGET", KEYS[1], "state")
if not state then
	state = ""
end
if ARGV[2] == "any" or string.find(" " .. ARGV[2] .. " ", " " .. state .. " ", 1, true) then
	redis.call("LREM", KEYS[2], 0, ARGV[1])
	redis.call("LREM", KEYS[3], 0, ARGV[1])
	redis.call("ZREM", KEYS[4], ARGV[1])
	redis.call("ZREM", KEYS[5], ARGV[1])
	redis.call("ZREM", KEYS[6], ARGV[1])
	redis.call("DEL", KEYS[1])
end
return state`)

func (c *Conn) remove(ctx context.Context, class, id, states string) (state, error) {
	found, err := removeScript.Run(ctx, c.client, stateKeys(class, id), id, states).Text()
	if err != nil {
		return "", fmt.Errorf("removing task %s from queue %s: %w", id, class, err)
	}
	return state(found), nil
}

// statesScript returns, for each task id in ARGV, its state and the expiry of
// its lease in Unix seconds, as two strings.
var statesScript = redis.NewScript(`
local found = {}
for _, id in ipairs(ARGV) do
	local task = KEYS[1] .. id
	table.insert(found, redis.call("HGET", task, "state") or "")
	table.insert(found, redis.call("ZSCORE", KEYS[2], id) or "0")
end
return found`)

// leaseScript takes or renews the lease KEYS[1] for the holder ARGV[1].
var leaseScript = redis.NewScript(`
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then
	return 0
end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1`)

// releaseScript gives the lease KEYS[1] up if ARGV[1] holds it.
var releaseScript = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1])
end
return 0`)
