package leadership

import (
	"log/slog"
	"time"
)

// standby logs the state of a process that waits for the lease.
type standby struct {
	log   *slog.Logger
	began time.Time
	// logged is the leader in the last log line; asked is the time of the last line about the
	// queue.
	logged string
	asked  time.Time
}

// unnamed stands for a holder of the lease that has not announced itself.
const unnamed = "a process that has not announced itself, such as a garbage collection"

// behind logs that another process holds the lease; leader is nil if unknown.
func (s *standby) behind(leader *announcement) {
	switch {
	case leader != nil && leader.Holder != s.logged:
		s.logged = leader.Holder
		s.log.Warn("standing by: another coordinator leads", "coordinator", leader.Holder, "since", leader.Since.Format(time.RFC3339), "store", leader.Store)
	case leader == nil && s.logged == "" && time.Since(s.began) > AnnouncedTTL:
		s.logged = unnamed
		s.log.Warn("standing by: another process holds the lease", "holder", unnamed)
	}
}

// cannotAsk logs, once a minute, that the queue does not grant the lease.
func (s *standby) cannotAsk(err error) {
	if time.Since(s.asked) >= time.Minute {
		s.asked = time.Now()
		s.log.Warn("standing by: the queue does not give the lease", "error", err)
	}
}
