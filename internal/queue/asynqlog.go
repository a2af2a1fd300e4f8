package queue

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// asynqLog writes asynq's messages to the worker's log, with node and attempt as fields if they name a
// task. None is an error here: asynq retries, or the coordinator recovers. While Redis is away, which
// the heartbeat reports, every operation fails each second without new information; the same holds for
// a connection that breaks before the heartbeat notices, and for a task that ends after Redis has lost
// it. Equal messages are written at most once a minute.
type asynqLog struct {
	log      *slog.Logger
	away     *atomic.Bool
	reported *sync.Map // time by message
}

// quiet is the minimum interval between equal messages.
const quiet = time.Minute

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelWarn, args) }
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

// namedAttempt matches the id of an attempt: the key of its node and its number.
var namedAttempt = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\.([0-9]+)\b`)

// harmless matches errors of a missing connection or a missing task.
var harmless = regexp.MustCompile(`\bdial (tcp|unix)\b|\bi/o timeout\b|\bEOF\b|\bconnection reset\b|\bbroken pipe\b|\bNOT FOUND\b`)

func (l asynqLog) write(level slog.Level, args []any) {
	text, log := fmt.Sprint(args...), l.log
	if level < slog.LevelError && (l.away.Load() || harmless.MatchString(text)) {
		level = slog.LevelDebug
	}
	if named := namedAttempt.FindAllStringSubmatch(text, -1); len(named) == 1 {
		log = log.With("node", named[0][1], "attempt", named[0][2])
	}
	if level > slog.LevelDebug && !l.due(text) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, "asynq: "+text)
}

// due reports whether a message was not written within quiet. Because messages about tasks all differ,
// it periodically forgets all messages.
func (l asynqLog) due(text string) bool {
	now := time.Now()
	l.reported.Range(func(known, at any) bool {
		if now.Sub(at.(time.Time)) >= quiet {
			l.reported.Delete(known)
		}
		return true
	})
	_, reported := l.reported.LoadOrStore(text, now)
	return !reported
}
