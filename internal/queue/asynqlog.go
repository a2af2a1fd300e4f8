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

// asynqLog writes asynq's messages to the worker's log, with node and attempt as fields
// if they name a task. None of them is an error here: asynq retries, or the coordinator
// recovers. While Redis is away, which the heartbeat reports after a while, every
// operation fails every second without new information; so does a connection that breaks
// before the heartbeat has noticed, or a task that ends after Redis has forgotten it. It
// writes one of several equal messages a minute, because asynq retries a failing
// operation every second.
type asynqLog struct {
	log  *slog.Logger
	away *atomic.Bool
	told *sync.Map // of messages: when
}

// quiet is the pause before an equal message is written again.
const quiet = time.Minute

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelWarn, args) }
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

// namedAttempt is the id of an attempt: the key of its node and its number.
var namedAttempt = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\.([0-9]+)\b`)

// harmless are the errors of a connection that is not there, and of a task that is
// not there.
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
// it forgets all messages now and then.
func (l asynqLog) due(text string) bool {
	now := time.Now()
	l.told.Range(func(known, at any) bool {
		if now.Sub(at.(time.Time)) >= quiet {
			l.told.Delete(known)
		}
		return true
	})
	_, told := l.told.LoadOrStore(text, now)
	return !told
}
