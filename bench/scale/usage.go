package scale

import (
	"os"
	"runtime"
	"time"
)

// usage is what a process has used so far; zero where the system does not tell.
type usage struct {
	cpu time.Duration
	rss int64 // bytes
}

// snapshot is what all processes have used up to a moment.
type snapshot struct {
	at                          time.Time
	coordinator, workers, redis usage
}

func (c *cluster) snapshot() snapshot {
	s := snapshot{at: time.Now(), coordinator: usageOf(os.Getpid())}
	for _, w := range c.workers {
		u := usageOf(w.cmd.Process.Pid)
		s.workers.cpu += u.cpu
		s.workers.rss += u.rss
	}
	if c.redis != nil {
		s.redis = usageOf(c.redis.cmd.Process.Pid)
	}
	return s
}

// CPU is processor time of the three parts.
type CPU struct {
	Coordinator float64 `json:"coordinator"`
	Workers     float64 `json:"workers"`
	Redis       float64 `json:"redis"`
}

// since is the processor time since an earlier snapshot, in seconds divided by per.
func (s snapshot) since(before snapshot, per float64) CPU {
	return CPU{
		Coordinator: (s.coordinator.cpu - before.coordinator.cpu).Seconds() / per,
		Workers:     (s.workers.cpu - before.workers.cpu).Seconds() / per,
		Redis:       (s.redis.cpu - before.redis.cpu).Seconds() / per,
	}
}

// heap is how much live memory this process has allocated from Go's heap, and in
// how many objects.
func heap() (bytes, objects int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.HeapObjects)
}
