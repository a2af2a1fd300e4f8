package cluster

import (
	"os"
	"runtime"
	"time"
)

// snapshot is the resources that all processes have used up to a moment.
type snapshot struct {
	at                          time.Time
	coordinator, workers, redis Usage
}

func (c *cluster) snapshot() snapshot {
	s := snapshot{at: time.Now(), coordinator: UsageOf(os.Getpid())}
	for _, w := range c.workers {
		u := w.Usage()
		s.workers.CPU += u.CPU
		s.workers.Resident += u.Resident
	}
	if c.redis != nil {
		s.redis = c.redis.Usage()
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
		Coordinator: (s.coordinator.CPU - before.coordinator.CPU).Seconds() / per,
		Workers:     (s.workers.CPU - before.workers.CPU).Seconds() / per,
		Redis:       (s.redis.CPU - before.redis.CPU).Seconds() / per,
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
