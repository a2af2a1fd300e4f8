package leadership

import (
	"log/slog"
	"time"

	"coalmine/workflows/coordinator/policy"
)

// standby is what a process says in the log while it does not get the lease.
type standby struct {
	log   *slog.Logger
	began time.Time
	// told is for whom it said that it stands by; asked when it last said that it cannot ask.
	told  string
	asked time.Time
}

// unnamed stands for a holder of the lease that has not announced itself.
const unnamed = "a process that has not said who it is, as a collection of garbage"

// behind notes that another process holds the lease; leader is nil if it is not known which.
func (s *standby) behind(leader *announcement) {
	switch {
	case leader != nil && leader.Holder != s.told:
		s.told = leader.Holder
		s.log.Warn("standing by: another coordinator leads", "coordinator", leader.Holder, "since", leader.Since.Format(time.RFC3339), "store", leader.Store)
	case leader == nil && s.told == "" && time.Since(s.began) > policy.AnnouncedTTL:
		s.told = unnamed
		s.log.Warn("standing by: another process holds the lease", "holder", unnamed)
	}
}

// cannotAsk notes that the queue does not give the lease to anybody, once a minute.
func (s *standby) cannotAsk(err error) {
	if time.Since(s.asked) >= time.Minute {
		s.asked = time.Now()
		s.log.Warn("standing by: the queue does not give the lease", "error", err)
	}
}
